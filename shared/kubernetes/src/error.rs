//! From the client's errors to the port's, which say how to react.

use kube::core::Status;
use nodeless_ports::{ErrorKind, PortError};

/// A call that failed: for the caller of the port, and with what the API server said for those in here who look closer.
#[derive(Debug)]
pub(crate) struct CallError {
    /// What the caller of the port gets.
    pub(crate) error: PortError,
    /// What the API server answered, if it did.
    pub(crate) status: Option<Box<Status>>,
}

impl From<CallError> for PortError {
    fn from(call: CallError) -> Self {
        call.error
    }
}

impl CallError {
    /// Whether the API server answered with this HTTP code.
    pub(crate) fn is(&self, code: u16) -> bool {
        self.status.as_ref().is_some_and(|status| status.code == code)
    }

    /// Whether the API server answered that the object that was named does not exist. A path that it does not serve is
    /// answered with the same code, but names no object.
    pub(crate) fn names_missing_object(&self) -> bool {
        let named = |status: &Status| status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        self.status.as_ref().is_some_and(|status| status.code == 404 && status.reason == "NotFound" && named(status))
    }

    /// A failure that is no answer of the API server.
    pub(crate) fn other(kind: ErrorKind, operation: &str, message: impl Into<String>) -> Self {
        Self { error: PortError::new(kind, operation, message), status: None }
    }
}

/// What a failed call means.
pub(crate) fn from_kube(operation: &str, error: kube::Error) -> CallError {
    match error {
        kube::Error::Api(status) => from_status(operation, status),
        kube::Error::Service(inner) => {
            let message = format!("the API server cannot be reached: {}", chain(inner.as_ref()));
            CallError::other(ErrorKind::Unavailable, operation, message)
        }
        kube::Error::Auth(inner) => {
            let message = format!("no credentials for the API server: {}; check the kubeconfig's user", chain(&inner));
            CallError::other(ErrorKind::Denied, operation, message)
        }
        error @ (kube::Error::BuildRequest(_) | kube::Error::HttpError(_)) => {
            CallError::other(ErrorKind::Invalid, operation, chain(&error))
        }
        error => CallError::other(ErrorKind::Unavailable, operation, chain(&error)),
    }
}

fn from_status(operation: &str, status: Box<Status>) -> CallError {
    let (kind, next) = judge(&status);
    let message = if status.message.is_empty() { format!("HTTP {}", status.code) } else { status.message.clone() };
    let error = PortError::new(kind, operation, format!("{message}{next}")).with_code(status.reason.clone());
    CallError { error, status: Some(status) }
}

/// How to react to an answer of the API server, and what to tell a person beyond what it said.
fn judge(status: &Status) -> (ErrorKind, &'static str) {
    match status.code {
        401 => (
            ErrorKind::Denied,
            "; the API server does not know who is calling: give this role an EKS access entry (Terraform makes one) \
             or, with a kubeconfig, log in anew",
        ),
        403 => (
            ErrorKind::Denied,
            "; the role's Kubernetes group lacks this right: run the installer again, which applies infra/rbac",
        ),
        404 => (ErrorKind::NotFound, ""),
        409 => (ErrorKind::Conflict, ""),
        429 => (ErrorKind::Throttled, ""),
        408 | 410 | 500.. => (ErrorKind::Unavailable, ""),
        _ => (ErrorKind::Invalid, ""),
    }
}

/// An error with its causes, as the clients say what happened only in the last.
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
    fn every_answer_has_its_reaction() {
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
    fn a_denial_says_what_to_grant() {
        let error = call(403, "pods is forbidden", "Forbidden").error.to_string();
        assert!(error.contains("pods is forbidden") && error.contains("infra/rbac"), "{error}");
        assert!(call(401, "", "Unauthorized").error.message.contains("access entry"));
    }

    #[test]
    fn an_unreachable_server_is_named_with_its_cause() {
        let inner = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let error = from_kube("Kubernetes list pods", kube::Error::Service(Box::new(inner))).error;
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("connection refused"), "{error}");
    }
}
