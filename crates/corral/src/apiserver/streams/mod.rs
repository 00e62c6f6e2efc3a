//! Conversations with pods: `exec`, `attach` and `port-forward`, over WebSocket.
//!
//! A client asks to change the protocol. Once that is done, every message to a container begins with the number of its
//! channel; connections to ports are streams of another protocol inside (`spdy`). The containers are simulated, and so
//! is what they run (`commands`).

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, future::poll_fn};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, frame::coding::CloseCode},
    },
};

use self::commands::{Container, Outcome};
use super::{
    pod_log::LogStream,
    service::{ApiBody, respond},
    status::{Answer, bad_request},
};

pub(crate) mod commands;
mod forward;
mod spdy;

/// The protocols that are spoken, the newest first. Since the fifth, a client can say that its input has ended.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const FORWARDING: [&str; 1] = ["SPDY/3.1+portforward.k8s.io"];
const UPGRADED: &str = "websocket";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const CLOSE: u8 = 255;

/// What is to be done once the protocol has changed.
pub(crate) enum Conversation {
    Exec { container: Container, command: Vec<String>, stdin: bool },
    Attach(LogStream),
    Forward { pod: String },
}

impl Conversation {
    fn protocols(&self) -> &'static [&'static str] {
        match self {
            Conversation::Exec { .. } | Conversation::Attach(_) => &PROTOCOLS,
            Conversation::Forward { .. } => &FORWARDING,
        }
    }
}

/// Agrees to change the protocol, and begins the conversation once that is done.
pub(crate) fn begin(head: &Parts, conversation: Conversation) -> Answer<Response<ApiBody>> {
    let wants = head.headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let key = head.headers.get(header::SEC_WEBSOCKET_KEY);
    let upgrade = head.extensions.get::<OnUpgrade>().cloned();
    let (true, Some(key), Some(upgrade)) = (wants.eq_ignore_ascii_case(UPGRADED), key, upgrade) else {
        return Err(bad_request("Upgrade request required"));
    };
    let spoken = conversation.protocols();
    let Some(protocol) = chosen(&head.headers, spoken) else {
        let spoken = spoken.join(", ");
        return Err(bad_request(format!("unable to negotiate protocol: server supports {spoken}")));
    };
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    tokio::spawn(async move {
        match upgrade.await {
            Ok(socket) => converse(socket, conversation).await,
            Err(error) => tracing::debug!("a client left before its conversation: {error}"),
        }
    });
    let mut response = respond(StatusCode::SWITCHING_PROTOCOLS, "", ApiBody::from(""));
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(UPGRADED));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    if let Ok(accept) = accept {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(response)
}

/// The newest protocol that both sides speak.
fn chosen(headers: &HeaderMap, spoken: &[&'static str]) -> Option<&'static str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<_> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
    spoken.iter().copied().find(|protocol| offered.contains(protocol))
}

async fn converse(socket: Upgraded, conversation: Conversation) {
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(socket), Role::Server, None).await;
    let mut channels = Channels { socket };
    let outcome = match conversation {
        Conversation::Exec { container, command, stdin } => {
            let input = if stdin && commands::reads_input(&command) { channels.input().await } else { vec![] };
            commands::run(&container, &command, &input)
        }
        Conversation::Attach(mut log) => {
            while let Some(text) = poll_fn(|context| log.poll_next(context)).await {
                if !channels.send(STDOUT, &text).await {
                    return;
                }
            }
            Outcome::default()
        }
        Conversation::Forward { pod } => return forward::serve(&mut channels, &pod).await,
    };
    let status = status_of(&outcome);
    let _ = channels.send(STDOUT, &outcome.stdout).await
        && channels.send(STDERR, &outcome.stderr).await
        && channels.send(STATUS, status.to_string().as_bytes()).await;
    // Clients take a close without a code for a broken connection.
    let ended = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    let _ = channels.socket.close(Some(ended)).await;
}

/// How a command has ended, as clients are told.
fn status_of(outcome: &Outcome) -> Value {
    if outcome.code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    let code = outcome.code;
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "reason": "NonZeroExitCode",
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}

struct Channels {
    socket: WebSocketStream<TokioIo<Upgraded>>,
}

impl Channels {
    /// Sends on a channel, if there is anything to send. Says whether the client is still there.
    async fn send(&mut self, channel: u8, text: &[u8]) -> bool {
        if text.is_empty() {
            return true;
        }
        let message = Bytes::from([&[channel], text].concat());
        self.socket.send(Message::Binary(message)).await.is_ok()
    }

    /// The next message, whatever is in it; none when the client has left.
    async fn next_bytes(&mut self) -> Option<Bytes> {
        loop {
            match self.socket.next().await?.ok()? {
                Message::Binary(bytes) => return Some(bytes),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Sends a message as it is. Says whether the client is still there.
    async fn send_bytes(&mut self, message: Vec<u8>) -> bool {
        self.socket.send(Message::Binary(message.into())).await.is_ok()
    }

    /// All input, until the client says that it has ended or leaves.
    async fn input(&mut self) -> Vec<u8> {
        let mut input = vec![];
        while let Some(Ok(message)) = self.socket.next().await {
            match message {
                Message::Binary(bytes) => match bytes.split_first() {
                    Some((&STDIN, text)) => input.extend(text),
                    Some((&CLOSE, [STDIN])) => break,
                    _ => {}
                },
                Message::Close(_) => break,
                _ => {}
            }
            if input.len() > commands::INPUT_LIMIT {
                break;
            }
        }
        input
    }
}
