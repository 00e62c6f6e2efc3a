//! The little of SPDY/3.1 that port forwarding needs: streams that a client opens, and data on them.
//!
//! kubectl speaks it inside a WebSocket. Headers are compressed with a dictionary that the protocol fixes.

use std::collections::BTreeMap;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

static DICTIONARY: &[u8] = include_bytes!("spdy3.dictionary");

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const PING: u16 = 6;
const FIN: u8 = 1;
/// The most that the headers of a stream may have.
const HEADERS_LIMIT: usize = 64 * 1024;

/// What a client says.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    Open { stream: u32, headers: BTreeMap<String, String> },
    Data { stream: u32, bytes: Vec<u8>, ends: bool },
    Ping(u32),
    Other,
}

/// One side of a conversation.
pub(super) struct Spdy {
    received: Vec<u8>,
    inflate: Decompress,
    deflate: Compress,
}

impl Spdy {
    pub fn new() -> Result<Self, String> {
        let mut deflate = Compress::new(Compression::default(), true);
        deflate.set_dictionary(DICTIONARY).map_err(|error| error.to_string())?;
        Ok(Spdy { received: vec![], inflate: Decompress::new(true), deflate })
    }

    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next frame, once it is there as a whole.
    pub fn next(&mut self) -> Result<Option<Frame>, String> {
        let Some(head) = self.received.first_chunk::<8>().copied() else { return Ok(None) };
        let length = usize::from(head[5]) << 16 | usize::from(head[6]) << 8 | usize::from(head[7]);
        if self.received.len() < 8 + length {
            return Ok(None);
        }
        let frame: Vec<u8> = self.received.drain(..8 + length).collect();
        let body = &frame[8..];
        let flags = head[4];
        if head[0] & 0x80 == 0 {
            let stream = number(&head)?;
            return Ok(Some(Frame::Data { stream, bytes: body.to_vec(), ends: flags & FIN != 0 }));
        }
        match u16::from_be_bytes([head[2], head[3]]) {
            SYN_STREAM => {
                let stream = number(body)?;
                let headers = self.headers(body.get(10..).unwrap_or_default())?;
                Ok(Some(Frame::Open { stream, headers }))
            }
            PING => Ok(Some(Frame::Ping(number(body)?))),
            _ => Ok(Some(Frame::Other)),
        }
    }

    fn headers(&mut self, packed: &[u8]) -> Result<BTreeMap<String, String>, String> {
        let mut plain = Vec::with_capacity(HEADERS_LIMIT);
        let before = self.inflate.total_in();
        loop {
            let read = (self.inflate.total_in() - before) as usize;
            let rest = packed.get(read..).unwrap_or_default();
            match self.inflate.decompress_vec(rest, &mut plain, FlushDecompress::Sync) {
                Ok(_) => break,
                Err(error) if error.needs_dictionary().is_some() => {
                    self.inflate.set_dictionary(DICTIONARY).map_err(|error| error.to_string())?;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        read_headers(&plain)
    }

    /// Accepts a stream.
    pub fn reply(&mut self, stream: u32) -> Result<Vec<u8>, String> {
        let mut headers = Vec::with_capacity(256);
        let none = 0_u32.to_be_bytes();
        self.deflate.compress_vec(&none, &mut headers, FlushCompress::Sync).map_err(|error| error.to_string())?;
        let mut body = stream.to_be_bytes().to_vec();
        body.extend(headers);
        Ok(control(SYN_REPLY, &body))
    }

    pub fn data(stream: u32, bytes: &[u8], ends: bool) -> Vec<u8> {
        let length = (bytes.len() as u32).to_be_bytes();
        let mut frame = stream.to_be_bytes().to_vec();
        frame.extend([if ends { FIN } else { 0 }, length[1], length[2], length[3]]);
        frame.extend(bytes);
        frame
    }

    pub fn pong(id: u32) -> Vec<u8> {
        control(PING, &id.to_be_bytes())
    }
}

fn control(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_be_bytes();
    let mut frame = (0x8000 | VERSION).to_be_bytes().to_vec();
    frame.extend(kind.to_be_bytes());
    frame.extend([0, length[1], length[2], length[3]]);
    frame.extend(body);
    frame
}

/// The number at the start, without the bit that is not part of it.
fn number(bytes: &[u8]) -> Result<u32, String> {
    let four = bytes.first_chunk::<4>().ok_or("a frame is too short")?;
    Ok(u32::from_be_bytes(*four) & 0x7fff_ffff)
}

fn read_headers(mut rest: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let mut headers = BTreeMap::new();
    let text = |rest: &mut &[u8]| -> Result<String, String> {
        let length = number(rest)? as usize;
        let bytes = rest.get(4..4 + length).ok_or("a header is cut off")?;
        *rest = &rest[4 + length..];
        Ok(String::from_utf8_lossy(bytes).into_owned())
    };
    let count = number(rest)?;
    rest = &rest[4..];
    for _ in 0..count {
        let name = text(&mut rest)?;
        headers.insert(name, text(&mut rest)?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client would send to open a stream.
    fn opened(client: &mut Spdy, stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend((text.len() as u32).to_be_bytes());
            plain.extend(text.as_bytes());
        }
        let mut packed = Vec::with_capacity(1024);
        client.deflate.compress_vec(&plain, &mut packed, FlushCompress::Sync).unwrap();
        let mut body = stream.to_be_bytes().to_vec();
        body.extend([0; 6]);
        body.extend(packed);
        control(SYN_STREAM, &body)
    }

    #[test]
    fn streams_are_opened_with_their_headers_one_after_the_other() {
        let (mut client, mut server) = (Spdy::new().unwrap(), Spdy::new().unwrap());
        for (stream, kind) in [(1, "error"), (3, "data")] {
            let sent = opened(&mut client, stream, &[("streamtype", kind), ("port", "8080"), ("requestid", "0")]);
            let (start, end) = sent.split_at(5);
            server.receive(start);
            assert_eq!(server.next(), Ok(None));
            server.receive(end);
            let Ok(Some(Frame::Open { stream: found, headers })) = server.next() else { panic!("no stream") };
            assert_eq!((found, headers["streamtype"].as_str()), (stream, kind));
        }
    }

    #[test]
    fn data_and_pings_are_told_apart() {
        let mut server = Spdy::new().unwrap();
        server.receive(&Spdy::data(3, b"hello", true));
        server.receive(&Spdy::pong(7));
        assert_eq!(server.next(), Ok(Some(Frame::Data { stream: 3, bytes: b"hello".to_vec(), ends: true })));
        assert_eq!(server.next(), Ok(Some(Frame::Ping(7))));
        assert_eq!(server.next(), Ok(None));
    }
}
