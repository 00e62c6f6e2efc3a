//! A connection into a pod, over the API server: `portforward`, in the SPDY/3.1 that every release of Kubernetes speaks for it.
//!
//! Two streams make one connection: what the pod says and hears, and what went wrong on the way. Of SPDY only that is spoken: headers are
//! sent without compressing them, which a reader cannot tell from compressed ones, and those that come back say nothing that is needed.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const PROTOCOL: &str = "portforward.k8s.io";
const PROTOCOL_HEADER: &str = "x-stream-protocol-version";
const SPDY: &str = "SPDY/3.1";
/// Streams of whoever asks have odd numbers.
const ERRORS: u32 = 1;
const DATA: u32 = 3;
/// What is sent at once.
const PIECE: usize = 16 * 1024;
const LAST: u8 = 1;

mod kinds {
    pub const OPEN: u16 = 1;
    pub const RESET: u16 = 3;
    pub const PING: u16 = 6;
    pub const GO_AWAY: u16 = 7;
}

/// Connects to a port of a pod.
pub async fn forward(client: &Client, namespace: &str, pod: &str, port: u16) -> Result<Forwarded, String> {
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/pods/{pod}/portforward"))
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, SPDY)
        .header(PROTOCOL_HEADER, PROTOCOL)
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!("the API server does not forward a port: {}", response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
    open(TokioIo::new(upgraded), port).await
}

/// Opens both streams on a connection that speaks SPDY.
async fn open(socket: impl AsyncRead + AsyncWrite + Send + 'static, port: u16) -> Result<Forwarded, String> {
    let (reader, mut writer) = tokio::io::split(socket);
    let broken = |error: std::io::Error| format!("the API server has ended the connection: {error}");
    for (stream, kind) in [(ERRORS, "error"), (DATA, "data")] {
        let frame = opening(stream, &[("streamtype", kind), ("port", &port.to_string()), ("requestid", "0")]);
        writer.write_all(&frame).await.map_err(broken)?;
    }
    // Nothing is said on that of errors.
    writer.write_all(&data(ERRORS, LAST, &[])).await.map_err(broken)?;
    writer.flush().await.map_err(broken)?;

    let (here, there) = tokio::io::duplex(4 * PIECE);
    let complaint = Arc::new(OnceLock::new());
    let (from_here, to_here) = tokio::io::split(there);
    let (frames, to_send) = unbounded_channel();
    let hears = hear(reader, to_here, frames, complaint.clone());
    let speaks = speak(writer, from_here, to_send);
    // Ends when either side does: with it the connection.
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = hears => {}
            () = speaks => {}
        }
    });
    Ok(Forwarded { stream: here, complaint })
}

/// Bytes of a pod, and of whoever talks with it.
#[derive(Debug)]
pub struct Forwarded {
    stream: DuplexStream,
    /// Why there are none.
    complaint: Arc<OnceLock<String>>,
}

impl AsyncRead for Forwarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        match (&polled, self.complaint.get()) {
            (Poll::Ready(Ok(())), Some(why)) if buffer.filled().len() == before => {
                Poll::Ready(Err(std::io::Error::other(why.clone())))
            }
            _ => polled,
        }
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Reads frames until there are no more.
async fn hear<S: AsyncRead + AsyncWrite>(
    mut reader: ReadHalf<S>,
    mut to_here: WriteHalf<DuplexStream>,
    frames: UnboundedSender<Vec<u8>>,
    complaint: Arc<OnceLock<String>>,
) {
    let mut said = Vec::new();
    let failed = loop {
        let (head, body) = match read_frame(&mut reader).await {
            Ok(frame) => frame,
            Err(error) => break Some(format!("the API server has ended the connection: {error}")),
        };
        match head {
            Head::Data { stream: DATA, last } => {
                if to_here.write_all(&body).await.is_err() || last {
                    break None;
                }
            }
            Head::Data { stream: ERRORS, last } => {
                said.extend(body);
                if last && !said.is_empty() {
                    break None;
                }
            }
            // That of errors is reset, too, by some, after it has said all.
            Head::Control(kinds::RESET) if body.starts_with(&DATA.to_be_bytes()) => {
                break Some("the API server refuses the connection".to_owned());
            }
            Head::Control(kinds::GO_AWAY) => break None,
            // Asked whether anybody is there. What is closed has nobody to tell.
            Head::Control(kinds::PING) => drop(frames.send(control(kinds::PING, 0, &body))),
            // That the streams are open, how much may be sent (as much as one likes), and headers.
            Head::Control(_) | Head::Data { .. } => {}
        }
    };
    // What was said in words says more than how it ended.
    let words = String::from_utf8_lossy(&said).trim().to_owned();
    if let Some(why) = Some(words).filter(|words| !words.is_empty()).or(failed) {
        let _ = complaint.set(why);
    }
    let _ = to_here.shutdown().await;
}

async fn speak<S: AsyncRead + AsyncWrite>(
    mut writer: WriteHalf<S>,
    mut from_here: ReadHalf<DuplexStream>,
    mut to_send: UnboundedReceiver<Vec<u8>>,
) {
    let mut piece = vec![0; PIECE];
    loop {
        let frame = tokio::select! {
            biased;
            Some(frame) = to_send.recv() => frame,
            read = from_here.read(&mut piece) => match read {
                Ok(0) | Err(_) => {
                    // Whoever is there may still have something to say.
                    let _ = writer.write_all(&data(DATA, LAST, &[])).await;
                    let _ = writer.flush().await;
                    return;
                }
                Ok(length) => data(DATA, 0, &piece[..length]),
            },
        };
        if writer.write_all(&frame).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Head {
    Data { stream: u32, last: bool },
    Control(u16),
}

async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(Head, Vec<u8>)> {
    let first = reader.read_u32().await?;
    let rest = reader.read_u32().await?;
    let [flags, length @ ..] = rest.to_be_bytes();
    let length = length.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    let head = if first & 0x8000_0000 == 0 {
        Head::Data { stream: first, last: flags & LAST != 0 }
    } else {
        let [_, _, high, low] = first.to_be_bytes();
        Head::Control(u16::from_be_bytes([high, low]))
    };
    Ok((head, body))
}

/// Opens a stream. The first of a connection begins what looks like compressed headers; both carry them as they are.
fn opening(stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    block.extend(length_of(headers.len()));
    for (name, value) in headers {
        for text in [name, value] {
            block.extend(length_of(text.len()));
            block.extend(text.as_bytes());
        }
    }
    let mut body = Vec::new();
    body.extend(stream.to_be_bytes());
    // No stream that it belongs to, no priority.
    body.extend([0; 6]);
    if stream == ERRORS {
        body.extend([0x78, 0x01]);
    }
    body.extend(stored(&block));
    // An empty piece at the end makes a reader give out what it has.
    body.extend(stored(&[]));
    control(kinds::OPEN, 0, &body)
}

fn length_of(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

/// A piece of deflate that is not compressed: RFC 1951, 3.2.4.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), bytes].concat()
}

fn control(kind: u16, flags: u8, body: &[u8]) -> Vec<u8> {
    frame([&[0x80, 3][..], &kind.to_be_bytes()].concat(), flags, body)
}

fn data(stream: u32, flags: u8, body: &[u8]) -> Vec<u8> {
    frame(stream.to_be_bytes().to_vec(), flags, body)
}

fn frame(mut head: Vec<u8>, flags: u8, body: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = length_of(body.len());
    head.push(flags);
    head.extend(length);
    head.extend(body);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other end: reads what was sent and answers as a test says.
    async fn opened(answers: Vec<u8>) -> (Forwarded, DuplexStream) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        theirs.write_all(&answers).await.unwrap();
        (open(ours, 2379).await.unwrap(), theirs)
    }

    #[tokio::test]
    async fn both_streams_are_opened_with_their_port() {
        let (_forwarded, mut theirs) = opened(Vec::new()).await;
        let (head, body) = read_frame(&mut theirs).await.unwrap();
        assert_eq!(head, Head::Control(kinds::OPEN));
        assert_eq!(body[..4], ERRORS.to_be_bytes());
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!(text.contains("streamtype\0\0\0\u{5}error") && text.contains("port\0\0\0\u{4}2379"), "{text:?}");
        let (_, body) = read_frame(&mut theirs).await.unwrap();
        assert_eq!(body[..4], DATA.to_be_bytes());
        assert_eq!(read_frame(&mut theirs).await.unwrap().0, Head::Data { stream: ERRORS, last: true });
    }

    #[tokio::test]
    async fn bytes_go_both_ways_and_questions_are_answered() {
        let ping = control(kinds::PING, 0, &[0, 0, 0, 2]);
        let (mut forwarded, mut theirs) = opened([ping.clone(), data(DATA, 0, b"hello")].concat()).await;
        let mut heard = [0; 5];
        forwarded.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        forwarded.write_all(b"well met").await.unwrap();
        let mut frames = Vec::new();
        for _ in 0..5 {
            frames.push(read_frame(&mut theirs).await.unwrap());
        }
        assert_eq!(frames[3], (Head::Control(kinds::PING), vec![0, 0, 0, 2]));
        assert_eq!(frames[4], (Head::Data { stream: DATA, last: false }, b"well met".to_vec()));
    }

    #[tokio::test]
    async fn what_went_wrong_on_the_way_is_told() {
        let why = b"error forwarding port 2379 to pod abc: connection refused";
        let (mut forwarded, _theirs) = opened(data(ERRORS, LAST, why)).await;
        let error = forwarded.read_u8().await.unwrap_err().to_string();
        assert_eq!(error.as_bytes(), why);
    }

    #[tokio::test]
    async fn words_count_for_more_than_the_reset_that_follows_them() {
        let reset = |stream: u32| control(kinds::RESET, 0, &[stream.to_be_bytes(), [0, 0, 0, 5]].concat());
        let frames = [data(ERRORS, 0, b"no such pod"), reset(ERRORS), reset(DATA)].concat();
        let (mut forwarded, _theirs) = opened(frames).await;
        assert_eq!(forwarded.read_u8().await.unwrap_err().to_string(), "no such pod");

        let (mut forwarded, _theirs) = opened(reset(DATA)).await;
        assert_eq!(forwarded.read_u8().await.unwrap_err().to_string(), "the API server refuses the connection");
    }

    #[tokio::test]
    async fn an_end_is_an_end() {
        let (mut forwarded, _theirs) = opened(data(DATA, LAST, b"bye")).await;
        let mut heard = Vec::new();
        forwarded.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"bye");
    }
}
