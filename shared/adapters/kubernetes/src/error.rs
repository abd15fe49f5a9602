//! Converts errors of the Kubernetes client to failed calls.

use kube::client::AuthError;
use kube::core::Status;
use nodeless_cluster::{ApiAnswer, CallError, Cause};
use nodeless_ports::ErrorKind;

/// Converts an error of the client.
pub(crate) fn from_kube(operation: &str, error: kube::Error) -> CallError {
    match error {
        kube::Error::Api(status) => from_status(operation, status),
        kube::Error::Service(inner) if inner.is::<AuthError>() => no_credentials(operation, inner.as_ref()),
        kube::Error::Service(inner) => {
            let message = format!("the API server cannot be reached: {}", chain(inner.as_ref()));
            CallError::other(ErrorKind::Unavailable, operation, message)
        }
        kube::Error::Auth(inner) => no_credentials(operation, &inner),
        error @ (kube::Error::BuildRequest(_) | kube::Error::HttpError(_)) => {
            CallError::other(ErrorKind::Invalid, operation, chain(&error))
        }
        error => CallError::other(ErrorKind::Unavailable, operation, chain(&error)),
    }
}

/// A token that a kubeconfig's user has no more, or that its command did not return.
fn no_credentials(operation: &str, inner: &(dyn std::error::Error + 'static)) -> CallError {
    let why = match inner.downcast_ref::<AuthError>() {
        // The client shows the whole output of the command as a Rust value.
        Some(AuthError::AuthExecRun { out, .. }) => format!(
            "the command of the kubeconfig failed with {}: {}",
            out.status,
            String::from_utf8_lossy(&out.stderr).trim()
        ),
        _ => chain(inner),
    };
    let message = format!("no credentials for the API server: {why}; check the kubeconfig's user, or log in again");
    CallError::other(ErrorKind::Denied, operation, message)
}

/// The reason that the client sets for a response that is not a `Status`: plain text, or the page of a proxy.
const UNREADABLE: &str = "Failed to parse error data";
/// The maximum length of a response that is not a `Status` in an error.
const TEXT_LENGTH: usize = 200;

fn from_status(operation: &str, mut status: Box<Status>) -> CallError {
    if status.reason == UNREADABLE {
        status.reason = if status.code == 429 { "TooManyRequests".to_owned() } else { String::new() };
        let words: Vec<&str> = status.message.split_whitespace().collect();
        status.message = words.join(" ").chars().take(TEXT_LENGTH).collect();
    }
    let (name, causes) = status.details.map(|details| (details.name, details.causes)).unwrap_or_default();
    let causes = causes.into_iter().map(|cause| Cause { reason: cause.reason, field: cause.field });
    let answer =
        ApiAnswer { code: status.code, reason: status.reason, message: status.message, name, causes: causes.collect() };
    CallError::answered(operation, answer)
}

/// An error with its causes, because the clients put the reason in the last one.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(code: u16, message: &str, reason: &str) -> CallError {
        from_kube("Kubernetes list pods", kube::Error::Api(Status::failure(message, reason).with_code(code).boxed()))
    }

    #[test]
    fn each_response_has_an_error_kind() {
        for (code, kind) in [
            (400, ErrorKind::Invalid),
            (401, ErrorKind::Denied),
            (403, ErrorKind::Denied),
            (404, ErrorKind::NotFound),
            (409, ErrorKind::Conflict),
            (410, ErrorKind::Unavailable),
            (422, ErrorKind::Invalid),
            (429, ErrorKind::Throttled),
            (500, ErrorKind::Unavailable),
            (503, ErrorKind::Unavailable),
        ] {
            assert_eq!(call(code, "m", "R").error.kind, kind, "{code}");
        }
    }

    #[test]
    fn a_denial_explains_what_to_do() {
        let right = r#"pods is forbidden: User "arn:aws:sts::1:assumed-role/planner/x" cannot list resource "pods" in API group "" at the cluster scope"#;
        let error = call(403, right, "Forbidden").error.to_string();
        assert!(error.contains(right) && error.contains("infra/rbac") && error.contains("just started"), "{error}");
        for (object, group) in [("deployments", "apps"), ("pods", "")] {
            let right = format!(
                r#"{object} "a" is forbidden: User "lifecycle" cannot patch resource "{object}" in API group "{group}" in the namespace "web""#
            );
            let error = call(403, &right, "Forbidden").error;
            assert!(
                error.kind == ErrorKind::Denied && error.message.contains("infra/rbac/optional/surge.yaml"),
                "{error}"
            );
        }
        assert!(call(401, "", "Unauthorized").error.message.contains("access entry"));
        for policy in [
            r#"admission webhook "policy.example.com" denied the request: no finalizers"#,
            r#"nodeclaims.karpenter.sh "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
            r#"events "a" is forbidden: exceeded quota: few, requested: count/events=1, used: count/events=9, limited: count/events=9"#,
        ] {
            let error = call(403, policy, "Forbidden").error;
            assert_eq!(error.kind, ErrorKind::Denied);
            assert!(!error.message.contains("installer") && error.message.contains("no missing right"), "{error}");
        }
        for (code, message) in [
            (400, r#"admission webhook "policy.example.com" denied the request without explanation"#),
            (429, r#"admission webhook "policy.example.com" denied the request: later"#),
            (422, r#"nodes "a" is invalid: : ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#),
        ] {
            let error = call(code, message, "").error;
            assert!(error.kind == ErrorKind::Denied && error.message.contains("has to let it through"), "{error}");
        }
        let slow = r#"Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post "https://a": context deadline exceeded"#;
        let error = call(500, slow, "InternalError").error;
        assert!(error.kind == ErrorKind::Unavailable && error.message.contains("matchConditions"), "{error}");
        let more = r#"clusterroles.rbac.authorization.k8s.io "nodeless:planner" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held: {APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#;
        assert!(call(403, more, "Forbidden").error.message.contains("bound to cluster-admin"));
        let starting = call(403, r#"events "a" is forbidden: not yet ready to handle request"#, "Forbidden").error;
        assert!(starting.kind == ErrorKind::Unavailable && starting.message.contains("just started"), "{starting}");
    }

    #[test]
    fn a_response_that_is_not_a_status_is_shown_unchanged() {
        let busy = call(429, "Too many requests, please try again later.\n", UNREADABLE).error;
        assert_eq!((busy.kind, busy.code.as_str()), (ErrorKind::Throttled, "TooManyRequests"));
        assert_eq!(busy.message, "Too many requests, please try again later.");
        let page = call(502, &format!("<html>\n  <body>{}</body>", "bad gateway ".repeat(50)), UNREADABLE).error;
        assert!(page.kind == ErrorKind::Unavailable && page.code.is_empty(), "{page:?}");
        assert!(page.message.starts_with("<html> <body>bad gateway") && page.message.len() == TEXT_LENGTH, "{page}");
        assert_eq!(call(503, "", UNREADABLE).error.message, "HTTP 503");
    }

    #[test]
    fn the_error_of_an_unreachable_server_has_its_cause() {
        let inner = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let error = from_kube("Kubernetes list pods", kube::Error::Service(Box::new(inner))).error;
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("connection refused"), "{error}");
    }
}
