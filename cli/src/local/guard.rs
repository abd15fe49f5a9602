//! Accepts only requests that are sent to a server by its own name or address, and not by a page of another site.
//!
//! A page of another site can make a browser send requests to the loopback address: those that need no consent of the server (GET, and POST
//! with the content type of a form or of plain text) even with effect. The browser sends the site in the header Origin, except for GET,
//! and reports in Sec-Fetch-Site that it is another one. The page can read the responses if the name of its own site is made to resolve to
//! the loopback address (DNS rebinding); the header Host then has that name. Clients that are no browsers send neither Origin nor
//! Sec-Fetch-Site. A server that others than this machine may use is named by an IP address, which no site can make resolve to another.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use std::net::{IpAddr, SocketAddr};

/// How the site of a request relates to the server, by browsers: <https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header>.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The router behind the guard of a server that is bound to this address.
pub(super) fn guarded(router: Router, address: SocketAddr) -> Router {
    router.layer(from_fn_with_state(address, check))
}

async fn check(State(own): State<SocketAddr>, request: Request, next: Next) -> Response {
    if is_own(request.headers(), own) {
        return next.run(request).await;
    }
    let named = if own.ip().is_loopback() {
        "requests for other hosts than this machine"
    } else {
        "requests whose header Host is no IP address of this machine"
    };
    (StatusCode::FORBIDDEN, format!("{named}, and of pages of other sites than {own}, are refused\n")).into_response()
}

/// Whether a value of the header Host names this machine: an address that the server is bound to, or the loopback address. A name that
/// is made to resolve to one of them is another one. The port may be that of a proxy on this machine.
fn is_this_machine(host: &str, own: IpAddr) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback() || address == own || own.is_unspecified())
}

/// Whether a request names this machine in the header Host, once, and is not sent by a page of another site than the server's own.
fn is_own(headers: &HeaderMap, own: SocketAddr) -> bool {
    let hosts = [own.to_string(), format!("localhost:{}", own.port())];
    let mut values = headers.get_all(HOST).iter();
    let (first, second) = (values.next(), values.next());
    let is_host = |name: &str| hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    let named = first.and_then(|value| value.to_str().ok());
    let all = |name: HeaderName, allowed: &dyn Fn(&str) -> bool| {
        headers.get_all(name).iter().all(|value| value.to_str().is_ok_and(allowed))
    };
    second.is_none()
        && named.is_some_and(|host| is_this_machine(host, own.ip()))
        && all(ORIGIN, &|origin| origin.strip_prefix("http://").is_some_and(is_host))
        && all(SEC_FETCH_SITE, &|site| matches!(site, "same-origin" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn accepted(sent: &[(HeaderName, &'static str)]) -> bool {
        accepted_by("127.0.0.1:8080", sent)
    }

    fn accepted_by(own: &str, sent: &[(HeaderName, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(name, HeaderValue::from_static(value));
        }
        is_own(&headers, own.parse().unwrap())
    }

    #[test]
    fn only_addresses_of_this_machine_are_accepted() {
        for own in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8081", "[::1]:8080"] {
            assert!(accepted(&[(HOST, own)]), "{own}");
        }
        for other in ["attacker.example:8080", "10.0.0.1:8080", "127.0.0.1:8080.example", "localhost.example", ""] {
            assert!(!accepted(&[(HOST, other)]), "{other}");
        }
        assert!(!accepted(&[]) && !accepted(&[(HOST, "127.0.0.1:8080"), (HOST, "attacker.example")]));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let own = (HOST, "127.0.0.1:8080");
        for origin in ["http://127.0.0.1:8080", "http://localhost:8080"] {
            assert!(accepted(&[own.clone(), (ORIGIN, origin), (SEC_FETCH_SITE, "same-origin")]), "{origin}");
        }
        for origin in ["null", "", "https://attacker.example", "http://localhost:3000", "https://127.0.0.1:8080"] {
            assert!(!accepted(&[own.clone(), (ORIGIN, origin)]), "{origin}");
        }
        assert!(accepted(&[own.clone(), (SEC_FETCH_SITE, "none")]), "the address was typed");
        for site in ["cross-site", "same-site"] {
            assert!(!accepted(&[own.clone(), (SEC_FETCH_SITE, site)]), "{site}");
        }
    }

    #[test]
    fn a_server_for_others_is_named_by_its_address() {
        for own in ["10.0.0.1:8080", "localhost:8080", "127.0.0.1:9"] {
            assert!(accepted_by("10.0.0.1:8080", &[(HOST, own)]), "{own}");
        }
        for other in ["10.0.0.2:8080", "attacker.example:8080", ""] {
            assert!(!accepted_by("10.0.0.1:8080", &[(HOST, other)]), "{other}");
        }
        for all in ["0.0.0.0:8080", "[::]:8080"] {
            assert!(accepted_by(all, &[(HOST, "10.0.0.2:8080")]) && accepted_by(all, &[(HOST, "[fd00::1]:8080")]));
            assert!(!accepted_by(all, &[(HOST, "attacker.example:8080")]));
            assert!(!accepted_by(all, &[(HOST, "10.0.0.2:8080"), (SEC_FETCH_SITE, "cross-site")]));
        }
    }
}
