//! Who asks the repository of a release what it serves: over HTTP in production, a script in a simulation.

use std::fmt::Debug;

use drover_core::harvester::{Release, Served};
use futures::future::BoxFuture;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What the release says of itself, below the address of the repository.
const RELEASE: &str = drover_api::harvester::jobs::repository::RELEASE_FILE;
/// No text of a release is longer, in bytes.
const LONGEST: usize = 4 << 20;

/// The files as they are served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    pub release: String,
    pub images: Option<String>,
    /// The images of the release that runs, which the new one lists, too.
    pub previous_images: Option<String>,
}

pub trait Repositories: Debug + Send + Sync {
    /// What the repository at this address serves to a cluster of a version; or why it does not, in words.
    fn fetch(&self, url: String, runs: String) -> BoxFuture<'static, Result<Texts, String>>;

    /// One file of a release; or why it cannot be had, in words.
    fn file(&self, url: String) -> BoxFuture<'static, Result<String, String>>;
}

/// Where nobody can be asked.
#[derive(Debug, Clone, Copy)]
pub struct NoRepositories;

impl Repositories for NoRepositories {
    fn fetch(&self, _: String, _: String) -> BoxFuture<'static, Result<Texts, String>> {
        Box::pin(async { Err("this operator has no network to ask over".to_owned()) })
    }

    fn file(&self, _: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async { Err("this operator has no network to ask over".to_owned()) })
    }
}

/// Over plain HTTP, as a Service of the cluster offers it.
#[derive(Debug, Clone, Copy)]
pub struct HttpRepositories;

impl Repositories for HttpRepositories {
    fn fetch(&self, url: String, runs: String) -> BoxFuture<'static, Result<Texts, String>> {
        Box::pin(async move {
            let release = get(&format!("{url}/{RELEASE}")).await?;
            // A release need not list its images.
            let images = get(&images_of(&url, "current")).await.ok();
            let previous_images = get(&images_of(&url, &runs)).await.ok();
            Ok(Texts { release, images, previous_images })
        })
    }

    fn file(&self, url: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { get(&url).await })
    }
}

/// Where a release lists the images of a version.
fn images_of(url: &str, version: &str) -> String {
    format!("{url}/bundle/harvester/images-lists-archive/{version}/image_list_all.txt")
}

pub fn read(texts: Texts) -> Result<Served, String> {
    let release: Release = serde_saphyr::from_str(&texts.release)
        .map_err(|error| format!("{RELEASE} cannot be read: {}", error.without_snippet()))?;
    Ok(Served { release, images: texts.images, previous_images: texts.previous_images })
}

async fn get(url: &str) -> Result<String, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url} is no URL: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err(format!("{url} is not at http://, and files are read over nothing else"));
    }
    let host = uri.host().ok_or("the URL names no host")?.to_owned();
    let named = uri.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let port = uri.port_u16().unwrap_or(80);
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| format!("{host}:{port} cannot be reached: {error}"))?;
    let broke_off = |error: hyper::Error| format!("it broke off: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broke_off)?;
    let request = Request::get(path)
        .header(header::HOST, named)
        .header(header::USER_AGENT, "drover")
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|error| format!("it cannot be asked: {error}"))?;
    let exchange = async move {
        let answer = sender.send_request(request).await.map_err(broke_off)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| format!("it broke off: {error}"))?.to_bytes();
        match status.is_success() {
            true => String::from_utf8(body.to_vec()).map_err(|_| "it is no text".to_owned()),
            false => Err(format!("{} answers {status}", uri.path())),
        }
    };
    let driven = async move {
        drop(connection.await);
        std::future::pending().await
    };
    tokio::select! {
        biased;
        answer = exchange => answer,
        never = driven => never,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_file_is_asked_for_with_all_of_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap()
        });

        let answer = get(&format!("http://{address}/a.yaml?ref=main")).await;

        assert_eq!(answer, Ok("ok".to_owned()));
        let asked = asked.await.unwrap();
        assert!(asked.starts_with("GET /a.yaml?ref=main HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_lowercase().contains(&format!("host: {address}\r\n")), "{asked}");
    }

    #[tokio::test]
    async fn nobody_is_asked_in_plain_text_where_that_is_not_meant() {
        let refused = get("https://example.com/a.yaml").await.unwrap_err();
        assert!(refused.contains("https://example.com/a.yaml is not at http://"), "{refused}");
    }
}
