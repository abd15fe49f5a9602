//! Converts errors of the Kubernetes client to errors of the port, whose kind determines the reaction.

use kube::client::AuthError;
use kube::core::Status;
use nodeless_ports::{ErrorKind, PortError};

/// A failed call: an error for the caller of the port, and the API server's status for callers in this crate.
#[derive(Debug)]
pub(crate) struct CallError {
    /// The error for the caller of the port.
    pub(crate) error: PortError,
    /// The API server's response, if any.
    pub(crate) status: Option<Box<Status>>,
}

impl From<CallError> for PortError {
    fn from(call: CallError) -> Self {
        call.error
    }
}

impl CallError {
    /// Whether the response has this HTTP status code.
    pub(crate) fn is(&self, code: u16) -> bool {
        self.status.as_ref().is_some_and(|status| status.code == code)
    }

    /// Whether the call was about another object of the same name.
    pub(crate) fn is_of_another(&self) -> bool {
        self.status.as_ref().is_some_and(|status| is_of_another(status))
    }

    /// Whether the cluster may have another address than the one that was called: the server did not answer, its certificate was not
    /// accepted, or it did not authenticate the caller.
    pub(crate) fn puts_address_in_doubt(&self) -> bool {
        self.is(401) || (self.status.is_none() && self.error.kind == ErrorKind::Unavailable)
    }

    /// Whether the object of the request does not exist. The response for a path that the API server does not serve has the same
    /// status code, but contains no object.
    pub(crate) fn names_missing_object(&self) -> bool {
        let named = |status: &Status| status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        self.status.as_ref().is_some_and(|status| status.code == 404 && status.reason == "NotFound" && named(status))
    }

    /// Whether the object was to be created in a namespace that is being deleted.
    pub(crate) fn is_terminating_namespace(&self) -> bool {
        self.forbids() == Some(Forbids::TerminatingNamespace)
    }

    /// Whether no role grants the request.
    pub(crate) fn is_missing_right(&self) -> bool {
        matches!(self.forbids(), Some(Forbids::MissingRight | Forbids::OptionalRight))
    }

    /// Whether an admission webhook or policy of the cluster rejected the request.
    pub(crate) fn is_refused_by_admission(&self) -> bool {
        self.status.as_ref().is_some_and(|status| refused_by_admission(status))
    }

    fn forbids(&self) -> Option<Forbids> {
        self.status.as_ref().filter(|status| status.code == 403).map(|status| forbids(status))
    }

    /// A failure without a response of the API server.
    pub(crate) fn other(kind: ErrorKind, operation: &str, message: impl Into<String>) -> Self {
        Self { error: PortError::new(kind, operation, message), status: None }
    }
}

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
    let (kind, next) = reaction(&status);
    let message = if status.message.is_empty() { format!("HTTP {}", status.code) } else { status.message.clone() };
    let error = PortError::new(kind, operation, format!("{message}{next}")).with_code(status.reason.clone());
    CallError { error, status: Some(status) }
}

/// The kind of error for a response of the API server, and what the user should do, in addition to its message.
fn reaction(status: &Status) -> (ErrorKind, &'static str) {
    match status.code {
        _ if is_of_another(status) => (ErrorKind::Conflict, ""),
        _ if refused_by_admission(status) => (ErrorKind::Denied, LET_THROUGH),
        401 => (
            ErrorKind::Denied,
            "; the API server did not authenticate the caller: give this role an EKS access entry (Terraform makes one) \
             or, with a kubeconfig, log in again",
        ),
        403 => match forbids(status) {
            Forbids::TerminatingNamespace => (ErrorKind::Denied, "; it is deleted with its namespace"),
            Forbids::NotReady => (ErrorKind::Unavailable, "; the API server has just started"),
            Forbids::MissingRight => (
                ErrorKind::Denied,
                "; the role's Kubernetes group lacks this right: run the installer again, which applies infra/rbac. An API server \
                 that has just started answers the same for a moment",
            ),
            Forbids::OptionalRight => (
                ErrorKind::Denied,
                "; this right is optional, and the installer does not grant it: an administrator of the cluster grants it with \
                 infra/rbac/optional/surge.yaml. An API server that has just started answers the same for a moment",
            ),
            Forbids::Escalation => (
                ErrorKind::Denied,
                "; a user may grant only rights that the user has: install as a user who is bound to cluster-admin",
            ),
            Forbids::Policy => (ErrorKind::Denied, LET_THROUGH),
        },
        404 => (ErrorKind::NotFound, ""),
        409 => (ErrorKind::Conflict, ""),
        429 => (ErrorKind::Throttled, ""),
        500 if status.message.contains("failed calling webhook") => (
            ErrorKind::Unavailable,
            "; this admission webhook of the cluster does not answer in time: repair it, or exclude the groups nodeless:* in its \
             matchConditions",
        ),
        408 | 410 | 500.. => (ErrorKind::Unavailable, ""),
        _ => (ErrorKind::Invalid, ""),
    }
}

/// Whether a patch has the uid of another object of the same name. Other writes with such a uid get a 409.
fn is_of_another(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 422 && causes.any(|cause| cause.field == "metadata.uid")
}

/// What to do about a rejection by admission.
const LET_THROUGH: &str = "; this is no missing right: an admission webhook, a policy or a quota of the cluster refuses it, and has to \
                           let it through";

/// Whether an admission webhook or a ValidatingAdmissionPolicy rejected the request. A webhook chooses the status code, 400 if it sets none
/// (`ToStatusErr` of apiserver's `admission/plugin/webhook/errors`); that of a policy is 422 by default.
fn refused_by_admission(status: &Status) -> bool {
    let message = &status.message;
    (message.contains("admission webhook \"") && message.contains("\" denied the request"))
        || (message.contains("ValidatingAdmissionPolicy '") && message.contains(" denied request"))
}

/// Why a response is a 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forbids {
    /// The namespace is being deleted, so no object may be created in it.
    TerminatingNamespace,
    /// An admission plugin has not read its configuration yet.
    NotReady,
    /// No role grants it. An API server that has just started has not read the roles yet, and answers the same.
    MissingRight,
    /// Only the role that creates successors before drains grants it.
    OptionalRight,
    /// A role or binding grants permissions that the caller does not have.
    Escalation,
    /// An admission plugin or webhook rejected it.
    Policy,
}

/// The rights of infra/rbac/optional, as the authorizer writes them. No other role of nodeless has them.
const OPTIONAL: [&str; 2] = ["cannot patch resource \"deployments\"", "cannot patch resource \"pods\""];

/// Every rejection is 403, `Forbidden`; only the messages differ, which are the same in all versions. The message of the
/// authorizer contains the user and the permission.
fn forbids(status: &Status) -> Forbids {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let message = &status.message;
    if causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating") {
        Forbids::TerminatingNamespace
    } else if message.contains("not yet ready to handle request") {
        Forbids::NotReady
    } else if message.contains("User \"") && message.contains("\" cannot ") {
        let optional = OPTIONAL.iter().any(|right| message.contains(right));
        if optional { Forbids::OptionalRight } else { Forbids::MissingRight }
    } else if message.contains("is attempting to grant RBAC permissions not currently held") {
        Forbids::Escalation
    } else {
        Forbids::Policy
    }
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
