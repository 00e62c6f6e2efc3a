//! Who asks the repository of a release what it serves: over HTTP in production, a script in a simulation.

use std::fmt::Debug;

use drover_core::harvester::{Release, Served};
use futures::future::BoxFuture;
use http::{Request, StatusCode, Uri, header};
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
            let images = get_if_there(&images_of(&url, "current")).await?;
            let previous_images = get_if_there(&images_of(&url, &runs)).await?;
            Ok(Texts { release, images, previous_images })
        })
    }

    fn file(&self, url: String) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { Ok(get(&url).await?) })
    }
}

/// Why a file could not be read, in words.
#[derive(Debug, PartialEq, Eq)]
enum Unread {
    /// Whoever serves the others says that there is none.
    NotThere(String),
    /// It may be there all the same.
    Failed(String),
}

impl From<Unread> for String {
    fn from(unread: Unread) -> String {
        match unread {
            Unread::NotThere(why) | Unread::Failed(why) => why,
        }
    }
}

/// A release need not list its images. Only that it says so itself tells that it does not: an error that passes would be taken for a
/// release that nobody knows.
async fn get_if_there(url: &str) -> Result<Option<String>, String> {
    match get(url).await {
        Ok(text) => Ok(Some(text)),
        Err(Unread::NotThere(_)) => Ok(None),
        Err(Unread::Failed(why)) => Err(why),
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

async fn get(url: &str) -> Result<String, Unread> {
    // Nothing is at such an address, whenever it is asked for.
    let uri: Uri = url.parse().map_err(|error| Unread::NotThere(format!("{url} is no URL: {error}")))?;
    if uri.scheme_str() != Some("http") {
        return Err(Unread::NotThere(format!("{url} is not at http://, and files are read over nothing else")));
    }
    let host = uri.host().ok_or_else(|| Unread::NotThere("the URL names no host".to_owned()))?.to_owned();
    let named = uri.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let port = uri.port_u16().unwrap_or(80);
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| Unread::Failed(format!("{host}:{port} cannot be reached: {error}")))?;
    let broke_off = |error: hyper::Error| Unread::Failed(format!("it broke off: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broke_off)?;
    let request = Request::get(path)
        .header(header::HOST, named)
        .header(header::USER_AGENT, "drover")
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|error| Unread::Failed(format!("it cannot be asked: {error}")))?;
    let exchange = async move {
        let answer = sender.send_request(request).await.map_err(broke_off)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| Unread::Failed(format!("it broke off: {error}")))?.to_bytes();
        if status.is_success() {
            return String::from_utf8(body.to_vec()).map_err(|_| Unread::Failed(format!("{} is no text", uri.path())));
        }
        let why = format!("{} answers {status}", uri.path());
        let is_missing = [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&status);
        Err(if is_missing { Unread::NotThere(why) } else { Unread::Failed(why) })
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
        let refused = String::from(get("https://example.com/a.yaml").await.unwrap_err());
        assert!(refused.contains("https://example.com/a.yaml is not at http://"), "{refused}");
    }

    /// What a release is read as whose files are answered like this, in their order.
    async fn fetched(answers: [&'static str; 3]) -> Result<Texts, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await.unwrap();
                let (status, text) = answer.split_once(": ").unwrap_or((answer, ""));
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let texts = HttpRepositories.fetch(format!("http://{address}"), "v1.7.0".to_owned()).await;
        served.abort();
        texts
    }

    #[tokio::test]
    async fn a_release_lists_no_images_only_where_its_repository_says_so() {
        let text = |text: &str| Some(text.to_owned());
        let silent = fetched(["200 OK: harvester: v1.8.0", "404 Not Found", "404 Not Found"]).await.unwrap();
        assert_eq!(silent, Texts { release: "harvester: v1.8.0".to_owned(), images: None, previous_images: None });
        let whole = fetched(["200 OK: harvester: v1.8.0", "200 OK: a:2", "200 OK: a:1"]).await.unwrap();
        assert_eq!((whole.images, whole.previous_images), (text("a:2"), text("a:1")));

        let list = "/bundle/harvester/images-lists-archive/current/image_list_all.txt answers 503 Service Unavailable";
        let starts = ["200 OK: harvester: v1.8.0", "503 Service Unavailable", "200 OK: a:1"];
        assert_eq!(fetched(starts).await, Err(list.to_owned()));
        let starts = ["200 OK: harvester: v1.8.0", "200 OK: a:2", "503 Service Unavailable"];
        assert!(fetched(starts).await.unwrap_err().contains("/v1.7.0/image_list_all.txt answers 503"));
    }
}
