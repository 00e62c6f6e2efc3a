//! Calls of gRPC, one question and one answer each, over a connection that is there already.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

/// A flag that says that it is not compressed, and its length.
const PREFIX: usize = 5;
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nobody answered.
    #[error("{0}")]
    Unreachable(String),
    /// The answer is no.
    #[error("{0}")]
    Refused(String),
}

/// A connection to one server. It ends with it.
pub struct Line {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
    authority: String,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Line {
    pub async fn open(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        authority: &str,
    ) -> Result<Self, CallError> {
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|error| CallError::Unreachable(error.to_string()))?;
        let connection = tokio::spawn(async move {
            // Whoever waits for an answer is told of it, too.
            let _ = connection.await;
        });
        Ok(Line { sender, connection, authority: authority.to_owned() })
    }

    /// Calls a method, such as `etcdserverpb.Cluster/MemberList`, and gives back its answer's message.
    pub async fn call(&mut self, method: &str, message: &[u8]) -> Result<Bytes, CallError> {
        let unreachable = |error: &dyn std::fmt::Display| CallError::Unreachable(error.to_string());
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
        let body = [&[0][..], &length, message].concat();
        let request = Request::post(format!("https://{}/{method}", self.authority))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| unreachable(&error))?;
        let answer = self.sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        let (head, body) = answer.into_parts();
        if head.status != StatusCode::OK {
            return Err(CallError::Unreachable(format!("it answers {}", head.status)));
        }
        let body = body.collect().await.map_err(|error| unreachable(&error))?;
        // Where there is no message, what would follow it stands before.
        let outcome = outcome(body.trailers().unwrap_or(&head.headers));
        outcome?;
        message_of(body.to_bytes()).ok_or_else(|| CallError::Unreachable("its answer is cut off".to_owned()))
    }
}

fn outcome(said: &HeaderMap) -> Result<(), CallError> {
    let text = |name: &str| said.get(name).and_then(|value| value.to_str().ok());
    match text(STATUS) {
        Some("0") => Ok(()),
        Some(code) => {
            let message = text(MESSAGE).map(plain).filter(|message| !message.is_empty());
            Err(CallError::Refused(message.unwrap_or_else(|| format!("status {code} of gRPC"))))
        }
        None => Err(CallError::Unreachable("it does not say how the call ended".to_owned())),
    }
}

fn message_of(mut body: Bytes) -> Option<Bytes> {
    let length = u32::from_be_bytes(body.get(1..PREFIX)?.try_into().ok()?);
    let is_plain = body.first() == Some(&0);
    let message = body.split_off(PREFIX);
    (is_plain && usize::try_from(length).ok()? == message.len()).then_some(message)
}

/// What is not plain ASCII stands there as in a URL.
fn plain(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(coded) => {
                plain.push(coded);
                at += 3;
            }
            None => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pairs: &[(&'static str, &'static str)]) -> Result<(), CallError> {
        outcome(&pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect())
    }

    #[test]
    fn an_answer_says_how_the_call_ended() {
        assert_eq!(said(&[(STATUS, "0")]), Ok(()));
        let refused = said(&[(STATUS, "5"), (MESSAGE, "etcdserver: member not found%21")]);
        assert_eq!(refused, Err(CallError::Refused("etcdserver: member not found!".to_owned())));
        assert_eq!(said(&[(STATUS, "14")]), Err(CallError::Refused("status 14 of gRPC".to_owned())));
        assert!(matches!(said(&[]), Err(CallError::Unreachable(_))));
    }

    #[test]
    fn a_message_that_is_cut_off_is_none() {
        assert_eq!(message_of(Bytes::from_static(&[0, 0, 0, 0, 2, 8, 1])), Some(Bytes::from_static(&[8, 1])));
        assert_eq!(message_of(Bytes::from_static(&[0, 0, 0, 0, 3, 8, 1])), None);
        assert_eq!(message_of(Bytes::from_static(&[1, 0, 0, 0, 2, 8, 1])), None, "compressed");
        assert_eq!(message_of(Bytes::from_static(&[0, 0])), None);
    }
}
