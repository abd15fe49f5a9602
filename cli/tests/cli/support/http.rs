//! HTTP/1.1 without a library: one request for each connection.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The response to a request.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl HttpAnswer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request with a body of JSON to an address, with a header Host that may be another one.
pub(crate) fn request(address: &str, host: &str, method: &str, path: &str, body: Option<&Value>) -> HttpAnswer {
    let headers = format!("Host: {host}\r\nContent-Type: application/json\r\n");
    let body = body.map(Value::to_string).unwrap_or_default();
    send(address, &format!("{method} {path}"), &headers, &body)
}

/// Sends a request, `METHOD PATH`, with headers that each end with a line break.
pub(crate) fn send(address: &str, what: &str, headers: &str, body: &str) -> HttpAnswer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let length = body.len();
    write!(stream, "{what} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "no response: {head}");
    }
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    let headers = head.to_lowercase();
    let mut bytes = Vec::new();
    if headers.contains("transfer-encoding: chunked") {
        bytes = chunks(&mut reader);
    } else {
        reader.read_to_end(&mut bytes).unwrap();
    }
    HttpAnswer { status, headers, body: String::from_utf8(bytes).unwrap() }
}

fn chunks(reader: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return bytes;
        }
    }
}

pub(crate) fn get(address: &str, path: &str) -> HttpAnswer {
    request(address, address, "GET", path, None)
}
