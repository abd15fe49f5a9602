//! HTTP requests that no client library sends, to the servers of `nodeless local`.

use super::mutation::{Numbers, spoil};
use super::seeds;
use crate::support::World;
use crate::support::http::get;
use serde_json::Value;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// The changed requests of each seed.
const CHANGED: u64 = 10;

/// The end of what a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It waits for the response.
    Waits,
    /// It closes its half of the connection, so the server knows that nothing follows.
    Closes,
}

/// Sends bytes and returns what the server sends until it closes the connection; empty if it closes it without a response.
fn exchange(address: &str, bytes: &[u8], end: End) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
    // The server may respond and close the connection before it has read everything.
    let sent = stream.write_all(bytes);
    assert!(
        !sent.is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
        "the server does not read {}",
        shown(bytes)
    );
    if end == End::Closes {
        drop(stream.shutdown(Shutdown::Write));
    }
    let mut received = Vec::new();
    if let Err(error) = stream.read_to_end(&mut received) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "no response to {}", shown(bytes));
    }
    received
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}

/// The status code of a response of the API server, if there is one. An error has a Status object. The HTTP library responds without a
/// body to what it cannot parse, and the guard with a text to requests for other hosts.
fn code(sent: &[u8], received: &[u8]) -> Option<u16> {
    if received.is_empty() {
        return None;
    }
    let (text, sent) = (String::from_utf8_lossy(received).into_owned(), shown(sent));
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{sent}: no headers in {text}"));
    let code: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_json = head.to_lowercase().contains("content-type: application/json");
    if code >= 400 && is_json {
        // What follows a body that is shorter than was sent is another request on the connection, with a response of its own.
        let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
        let first = values.next().unwrap_or_else(|| panic!("{sent}: no Status in {text}"));
        let status = first.unwrap_or_else(|error| panic!("{sent}: {error}: {text}"));
        assert_eq!((&status["kind"], &status["code"]), (&"Status".into(), &code.into()), "{sent}: {text}");
    } else if code >= 400 {
        let is_alone = body.is_empty() || body.starts_with("HTTP/1.1 ");
        assert!(is_alone || code == 403 && body.starts_with("requests for other hosts"), "{sent}: {text}");
    }
    Some(code)
}

/// A request for an object of the default namespace with this body.
fn request(address: &str, line: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

fn with_kind(address: &str, line: &str, kind: &str, body: &str) -> Vec<u8> {
    request(address, line, &format!("Content-Type: {kind}\r\n"), body)
}

const POD: &str =
    r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
const PODS: &str = "/api/v1/namespaces/default/pods";

/// No panic was logged, and the server still answers.
fn check(world: &World, address: &str) {
    assert!(!world.log().contains("panicked"), "{}", world.log());
    assert_eq!(get(address, "/version").status, 200);
}

#[test]
fn changed_requests_are_answered_or_their_connection_is_closed() {
    let world = World::start(&["--no-controllers"]);
    let address = world.kubernetes.trim_start_matches("http://");
    let aws = world.aws.trim_start_matches("http://");
    let requests = [
        with_kind(address, &format!("POST {PODS}?fieldValidation=Strict&dryRun=All"), "application/json", POD),
        with_kind(
            address,
            &format!("PATCH {PODS}/p"),
            "application/merge-patch+json",
            r#"{"metadata":{"labels":{"a":"b"}}}"#,
        ),
        with_kind(address, &format!("PATCH {PODS}/p?fieldManager=m"), "application/apply-patch+yaml", POD),
        with_kind(address, &format!("PUT {PODS}/p/status"), "application/json", POD),
        with_kind(
            address,
            &format!("DELETE {PODS}/p"),
            "application/json",
            r#"{"gracePeriodSeconds":0,"preconditions":{"uid":"u"}}"#,
        ),
        request(
            address,
            &format!("GET {PODS}?labelSelector=a%20in%20(b)&limit=1&continue="),
            "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n",
            "",
        ),
        request(address, "GET /api/v1/pods?watch=1&timeoutSeconds=1&allowWatchBookmarks=true", "", ""),
        format!(
            "POST {PODS} HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{POD}\r\n0\r\n\r\n",
            POD.len()
        )
        .into_bytes(),
    ];
    let calls = [
        with_kind(
            aws,
            "POST /",
            "application/x-www-form-urlencoded",
            "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=a&Filter.1.Value.1=b",
        ),
        request(
            aws,
            "POST /",
            "X-Amz-Target: AmazonSSM.GetParameter\r\nContent-Type: application/x-amz-json-1.1\r\n",
            r#"{"Name":"/aws/service/a"}"#,
        ),
        request(aws, "GET /clusters/local", "", ""),
    ];
    for seed in seeds() {
        for number in 0..CHANGED {
            let mut numbers = Numbers::new(seed.wrapping_mul(CHANGED).wrapping_add(number));
            let mut bytes = numbers.one(&requests);
            (0..=numbers.below(3)).for_each(|_| spoil(&mut numbers, &mut bytes));
            code(&bytes, &exchange(address, &bytes, End::Closes));
            let mut call = numbers.one(&calls);
            spoil(&mut numbers, &mut call);
            exchange(aws, &call, End::Closes);
        }
    }
    check(&world, address);
    assert!(!exchange(aws, &calls[0], End::Waits).is_empty());
}
