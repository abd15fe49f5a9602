//! Accepts only the requests that a browser on this machine sends to this server by its own name.
//!
//! A page of another site can make a browser send requests to the loopback address. It cannot read the responses, unless the
//! name of its own site is made to resolve to the loopback address (DNS rebinding); the header Host then has that name.

use axum::http::HeaderMap;
use axum::http::header::HOST;

/// The values of the header Host that are accepted by a server with this URL.
pub(super) fn hosts(url: &str) -> Vec<String> {
    let own = url.trim_start_matches("http://").to_owned();
    let port = own.rsplit(':').next().unwrap_or_default().to_owned();
    vec![own, format!("localhost:{port}")]
}

/// Whether a request has one of these values in the header Host, once.
pub(super) fn is_own(headers: &HeaderMap, hosts: &[String]) -> bool {
    let mut values = headers.get_all(HOST).iter();
    let (first, second) = (values.next(), values.next());
    let named = first.and_then(|value| value.to_str().ok());
    second.is_none() && named.is_some_and(|name| hosts.iter().any(|host| host.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_the_own_address_is_accepted() {
        let hosts = hosts("http://127.0.0.1:8080");
        let accepted = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HOST, HeaderValue::from_static(value));
            }
            is_own(&headers, &hosts)
        };
        assert!(accepted(&["127.0.0.1:8080"]) && accepted(&["localhost:8080"]) && accepted(&["LOCALHOST:8080"]));
        for other in ["attacker.example:8080", "127.0.0.1", "127.0.0.1:8081", "localhost", "127.0.0.1:8080.example", ""]
        {
            assert!(!accepted(&[other]), "{other}");
        }
        assert!(!accepted(&[]) && !accepted(&["127.0.0.1:8080", "attacker.example"]));
    }
}
