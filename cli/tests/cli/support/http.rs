//! HTTP/1.1 without a library: one request for each connection.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request to an address, with a header Host that may be another one.
pub(crate) fn request(address: &str, host: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let kind = "Content-Type: application/json\r\nConnection: close";
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text}"));
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    let headers = head.to_lowercase();
    let body = if headers.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    Answer { status, headers, body }
}

pub(crate) fn get(address: &str, path: &str) -> Answer {
    request(address, address, "GET", path, None)
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            break;
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    body
}
