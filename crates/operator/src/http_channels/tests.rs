//! Channels as servers of these tests play them: in the clear, behind TLS, behind a proxy.

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

const REDIRECT: &str = "HTTP/1.1 302 Found\r\nLocation: https://example.com/v1.2.3\r\n\r\n";

/// Answers one request with `answer` and gives back what was asked.
async fn server(answer: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/stable", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        respond(stream, answer).await
    });
    (url, asked)
}

async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let asked = head(&mut stream).await;
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    asked
}

/// What comes up to an empty line.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(asked).unwrap()
}

/// A server behind TLS that calls itself `name`; its certificate, its port, and what it was asked.
async fn secure_server(name: &str) -> (CertificateDer<'static>, u16, JoinHandle<Option<String>>) {
    let certified = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // Who does not trust it breaks off.
        let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await.ok()?;
        Some(respond(stream, REDIRECT).await)
    });
    (certificate, port, asked)
}

/// A proxy that tunnels to whatever port of this machine it is asked for, or refuses; what it was asked.
async fn proxy(verdict: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://user:secret@{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = head(&mut stream).await;
        stream.write_all(format!("HTTP/1.1 {verdict}\r\n\r\n").as_bytes()).await.unwrap();
        if verdict.starts_with("200") {
            let port = asked.split_whitespace().nth(1).unwrap().rsplit(':').next().unwrap().parse::<u16>().unwrap();
            let mut target = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            // Either side may close first.
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut target).await;
        }
        asked
    });
    (url, asked)
}

/// Channels that trust these authorities and no others, and ask over this proxy if there is one.
fn channels(authority: Option<&CertificateDer<'static>>, proxy: &str) -> HttpChannels {
    let mut roots = RootCertStore::empty();
    authority.into_iter().for_each(|authority| roots.add(authority.clone()).unwrap());
    let trusted = OnceLock::new();
    trusted.set(trusting(roots).unwrap()).unwrap();
    let proxies = Matcher::builder().http(proxy.to_owned()).https(proxy.to_owned()).no("127.0.0.2").build();
    HttpChannels { proxies: Arc::new(proxies), trusted: Arc::new(trusted) }
}

fn question(url: &str, latest_version: &str) -> Question {
    Question { url: url.to_owned(), latest_version: latest_version.to_owned() }
}

fn redirected() -> Answer {
    Answer { status: 302, location: Some("https://example.com/v1.2.3".to_owned()) }
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let (url, asked) = server(REDIRECT).await;
    let answer = channels(None, "").get(&question(&url, "v1.2.2"), Some("uid-1")).await.unwrap();

    assert_eq!(answer, redirected());
    let asked = asked.await.unwrap().to_lowercase();
    assert!(asked.starts_with("get /stable http/1.1\r\n"), "{asked}");
    assert!(asked.contains("x-suc-cluster-id: uid-1\r\n"), "{asked}");
    assert!(asked.contains("x-suc-latest-version: v1.2.2\r\n"), "{asked}");
}

#[tokio::test]
async fn without_a_version_none_is_told() {
    let (url, asked) = server("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
    let answer = channels(None, "").get(&question(&url, ""), None).await.unwrap();

    assert_eq!(answer, Answer { status: 404, location: None });
    assert!(!asked.await.unwrap().to_lowercase().contains("x-suc-"));
}

#[tokio::test]
async fn what_cannot_be_asked_is_said_in_words() {
    for (url, said) in [
        ("ftp://example.com/x", "it is no URL that begins with http:// or https://"),
        ("http://127.0.0.1:1/x", "127.0.0.1:1 cannot be reached: "),
    ] {
        let problem = channels(None, "").get(&question(url, ""), None).await.unwrap_err();
        assert!(problem.starts_with(said), "{problem}");
    }
}

#[tokio::test]
async fn a_server_behind_tls_is_asked_if_an_authority_vouches_for_its_name() {
    let (certificate, port, asked) = secure_server("localhost").await;
    let url = format!("https://localhost:{port}/stable");

    let answer = channels(Some(&certificate), "").get(&question(&url, ""), None).await.unwrap();

    assert_eq!(answer, redirected());
    let asked = asked.await.unwrap().unwrap();
    assert!(asked.starts_with("GET /stable HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains(&format!("Host: localhost:{port}\r\n")), "{asked}");
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_told_nothing() {
    let (_, port, asked) = secure_server("localhost").await;
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let url = format!("https://localhost:{port}/stable");

    let said = channels(Some(stranger.cert.der()), "").get(&question(&url, "v1"), None).await.unwrap_err();

    assert!(said.starts_with("localhost cannot be trusted: "), "{said}");
    assert_eq!(asked.await.unwrap(), None);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted() {
    let (certificate, port, asked) = secure_server("elsewhere.example").await;
    let url = format!("https://localhost:{port}/stable");

    let said = channels(Some(&certificate), "").get(&question(&url, ""), None).await.unwrap_err();

    assert!(said.starts_with("localhost cannot be trusted: "), "{said}");
    assert_eq!(asked.await.unwrap(), None);
}

#[tokio::test]
async fn a_proxy_passes_on_a_request_in_the_clear_whole_and_with_its_login() {
    let (proxy, asked) = server(REDIRECT).await;
    let proxy = proxy.replace("http://", "http://user:secret@").replace("/stable", "");

    let answer = channels(None, &proxy).get(&question("http://channel.example/stable", "v1"), None).await.unwrap();

    assert_eq!(answer, redirected());
    let asked = asked.await.unwrap();
    assert!(asked.starts_with("GET http://channel.example/stable HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("Host: channel.example\r\n"), "{asked}");
    // "user:secret" in base64.
    assert!(asked.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{asked}");
}

#[tokio::test]
async fn a_server_behind_tls_is_asked_through_a_tunnel_of_the_proxy() {
    let (certificate, port, asked) = secure_server("localhost").await;
    let (proxy, tunnelled) = proxy("200 Connection established").await;
    let url = format!("https://localhost:{port}/stable");

    let answer = channels(Some(&certificate), &proxy).get(&question(&url, ""), Some("uid-1")).await.unwrap();

    assert_eq!(answer, redirected());
    let asked = asked.await.unwrap().unwrap();
    assert!(asked.starts_with("GET /stable HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_lowercase().contains("x-suc-cluster-id: uid-1\r\n"), "{asked}");
    assert!(!asked.contains("Proxy-Authorization"), "the login is the proxy's alone: {asked}");
    let tunnelled = tunnelled.await.unwrap();
    assert!(tunnelled.starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")), "{tunnelled}");
    assert!(tunnelled.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"), "{tunnelled}");
}

#[tokio::test]
async fn a_proxy_that_refuses_says_so_in_its_own_words() {
    let (proxy, _) = proxy("407 Proxy Authentication Required").await;

    let said = channels(None, &proxy).get(&question("https://localhost:1/stable", ""), None).await.unwrap_err();

    assert!(said.ends_with("refuses: HTTP/1.1 407 Proxy Authentication Required"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

#[tokio::test]
async fn hosts_that_need_no_proxy_are_asked_directly() {
    let channels = channels(None, "http://127.0.0.1:1");
    let said = channels.get(&question("http://127.0.0.2:1/stable", ""), None).await.unwrap_err();
    assert!(said.starts_with("127.0.0.2:1 cannot be reached"), "{said}");
}
