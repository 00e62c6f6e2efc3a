//! `port-forward`: every connection to a port of a simulated pod is answered with a small page.

use std::collections::BTreeMap;

use super::{
    Channels,
    spdy::{Frame, Spdy},
};

/// What is known of the streams that are open.
#[derive(Default)]
struct Streams {
    /// The stream for errors of each connection, which ends with it.
    errors: BTreeMap<String, u32>,
    /// For each stream with data its connection, its port, and what was asked so far.
    data: BTreeMap<u32, (String, String, Vec<u8>)>,
}

/// Serves connections until the client leaves.
pub(super) async fn serve(channels: &mut Channels, pod: &str) {
    if let Err(why) = talk(channels, pod).await {
        tracing::debug!("port forwarding to {pod} ended: {why}");
    }
}

async fn talk(channels: &mut Channels, pod: &str) -> Result<(), String> {
    let mut spdy = Spdy::new()?;
    let mut streams = Streams::default();
    while let Some(bytes) = channels.next_bytes().await {
        spdy.receive(&bytes);
        while let Some(frame) = spdy.next()? {
            for answer in streams.answer(&mut spdy, frame, pod)? {
                if !channels.send_bytes(answer).await {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

impl Streams {
    /// What is to be sent after a frame.
    fn answer(&mut self, spdy: &mut Spdy, frame: Frame, pod: &str) -> Result<Vec<Vec<u8>>, String> {
        Ok(match frame {
            Frame::Open { stream, headers } => {
                let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
                let connection = header("requestid");
                match header("streamtype").as_str() {
                    "error" => {
                        self.errors.insert(connection, stream);
                    }
                    _ => {
                        self.data.insert(stream, (connection, header("port"), vec![]));
                    }
                }
                vec![spdy.reply(stream)?]
            }
            Frame::Data { stream, bytes, ends } => {
                let Some((_, _, asked)) = self.data.get_mut(&stream) else { return Ok(vec![]) };
                asked.extend(bytes);
                let is_whole = ends || asked.windows(4).any(|four| four == b"\r\n\r\n");
                match self.data.remove(&stream) {
                    Some((connection, port, _)) if is_whole => {
                        let error = self.errors.remove(&connection);
                        let ended = error.map(|error| Spdy::data(error, &[], true));
                        let page = Spdy::data(stream, page(pod, &port).as_bytes(), true);
                        std::iter::once(page).chain(ended).collect()
                    }
                    Some(waiting) => {
                        self.data.insert(stream, waiting);
                        vec![]
                    }
                    None => vec![],
                }
            }
            Frame::Ping(id) => vec![Spdy::pong(id)],
            Frame::Other => vec![],
        })
    }
}

fn page(pod: &str, port: &str) -> String {
    let text = format!("{pod}, port {port}\n");
    let length = text.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}
