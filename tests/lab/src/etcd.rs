//! The few words that the lab speaks with etcd itself, by its JSON gateway.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Forgets all versions but the newest.
pub(crate) fn compact(port: u16) -> Result<()> {
    let newest = ask(port, "read the revision", "/v3/kv/range", &json!({ "key": "AA==" }))?;
    let revision = &newest["header"]["revision"];
    ask(port, "compact", "/v3/kv/compaction", &json!({ "revision": revision, "physical": true })).map(drop)
}

pub(crate) fn ask(port: u16, act: &'static str, path: &str, body: &Value) -> Result<Value> {
    let failed = |cause: String| Error::Etcd { act, cause };
    let exchange = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        let body = body.to_string();
        // With HTTP/1.0 the answer comes in one piece, and its end is the end of the connection.
        write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    let answer = exchange().map_err(|error| failed(error.to_string()))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| failed("its answer has no body".into()))?;
    if !head.lines().next().is_some_and(|line| line.contains(" 200 ")) {
        return Err(failed(body.trim().to_owned()));
    }
    serde_json::from_str(body).map_err(|error| failed(error.to_string()))
}
