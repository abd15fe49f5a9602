//! Accepts only requests that are sent to a server by its own name, and not by a page of another site.
//!
//! A page of another site can make a browser send requests to the loopback address: those that need no consent of the server (GET, and POST
//! with the content type of a form or of plain text) even with effect. The browser sends the site in the header Origin, except for GET,
//! and reports in Sec-Fetch-Site that it is another one. The page can read the responses if the name of its own site is made to resolve to
//! the loopback address (DNS rebinding); the header Host then has that name. Clients that are no browsers send neither Origin nor
//! Sec-Fetch-Site.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// How the site of a request relates to the server, by browsers: <https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header>.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The router behind the guard of a server with this URL.
pub(super) fn guarded(router: Router, url: &str) -> Router {
    router.layer(from_fn_with_state(Arc::new(hosts(url)), check))
}

async fn check(State(hosts): State<Arc<[String; 2]>>, request: Request, next: Next) -> Response {
    if is_own(request.headers(), &hosts) {
        return next.run(request).await;
    }
    let own = &hosts[0];
    let text =
        format!("requests for other hosts than this machine, and of pages of other sites than {own}, are refused\n");
    (StatusCode::FORBIDDEN, text).into_response()
}

/// The hosts of a server with this URL, as its own pages name them.
fn hosts(url: &str) -> [String; 2] {
    let own = url.trim_start_matches("http://").to_owned();
    let port = own.rsplit(':').next().unwrap_or_default().to_owned();
    [own, format!("localhost:{port}")]
}

/// Whether a value of the header Host names this machine. A name that is made to resolve to it is another one. The port may be that of
/// a proxy on this machine.
fn is_this_machine(host: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Whether a request names this machine in the header Host, once, and is not sent by a page of another site than these hosts.
fn is_own(headers: &HeaderMap, hosts: &[String; 2]) -> bool {
    let mut values = headers.get_all(HOST).iter();
    let (first, second) = (values.next(), values.next());
    let is_host = |name: &str| hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    let named = first.and_then(|value| value.to_str().ok());
    let all = |name: HeaderName, allowed: &dyn Fn(&str) -> bool| {
        headers.get_all(name).iter().all(|value| value.to_str().is_ok_and(allowed))
    };
    second.is_none()
        && named.is_some_and(is_this_machine)
        && all(ORIGIN, &|origin| origin.strip_prefix("http://").is_some_and(is_host))
        && all(SEC_FETCH_SITE, &|site| matches!(site, "same-origin" | "none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn accepted(sent: &[(HeaderName, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(name, HeaderValue::from_static(value));
        }
        is_own(&headers, &hosts("http://127.0.0.1:8080"))
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
}
