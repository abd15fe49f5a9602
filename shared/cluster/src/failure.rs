//! Failed calls of the API server, and how callers react to them.

use nodeless_ports::{ErrorKind, PortError};

/// The response of the API server to a request that it rejects, a `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiAnswer {
    /// The HTTP status code.
    pub code: u16,
    /// The reason as one word, such as `NotFound`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The name of the object; empty if the response is about none.
    pub name: String,
    /// The causes.
    pub causes: Vec<Cause>,
}

/// A cause of a rejection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The reason as one word, such as `DisruptionBudget`.
    pub reason: String,
    /// The path of the field, if it is about one.
    pub field: String,
}

/// A failed call: an error for the caller of the port, and the API server's status for callers in this crate.
#[derive(Debug)]
pub struct CallError {
    /// The error for the caller of the port.
    pub error: PortError,
    /// The API server's response, if any.
    pub answer: Option<Box<ApiAnswer>>,
}

impl From<CallError> for PortError {
    fn from(call: CallError) -> Self {
        call.error
    }
}

impl CallError {
    /// Whether the response has this HTTP status code.
    #[must_use]
    pub fn is(&self, code: u16) -> bool {
        self.answer.as_ref().is_some_and(|status| status.code == code)
    }

    /// Whether the call was about another object of the same name.
    #[must_use]
    pub fn is_of_another(&self) -> bool {
        self.answer.as_ref().is_some_and(|status| is_of_another(status))
    }

    /// Whether the cluster may have another address than the one that was called: the server did not answer, its certificate was not
    /// accepted, or it did not authenticate the caller.
    #[must_use]
    pub fn puts_address_in_doubt(&self) -> bool {
        self.is(401) || (self.answer.is_none() && self.error.kind == ErrorKind::Unavailable)
    }

    /// Whether the object of the request does not exist. The response for a path that the API server does not serve has the same
    /// status code, but contains no object.
    #[must_use]
    pub fn names_missing_object(&self) -> bool {
        self.answer.as_ref().is_some_and(|it| it.code == 404 && it.reason == "NotFound" && !it.name.is_empty())
    }

    /// Whether the object was to be created in a namespace that is being deleted.
    #[must_use]
    pub fn is_terminating_namespace(&self) -> bool {
        self.forbids() == Some(Forbids::TerminatingNamespace)
    }

    /// Whether no role grants the request.
    #[must_use]
    pub fn is_missing_right(&self) -> bool {
        matches!(self.forbids(), Some(Forbids::MissingRight | Forbids::OptionalRight))
    }

    /// Whether an admission webhook or policy of the cluster rejected the request.
    #[must_use]
    pub fn is_refused_by_admission(&self) -> bool {
        self.answer.as_ref().is_some_and(|status| refused_by_admission(status))
    }

    fn forbids(&self) -> Option<Forbids> {
        self.answer.as_ref().filter(|status| status.code == 403).map(|status| forbids(status))
    }

    /// A response of the API server.
    #[must_use]
    pub fn answered(operation: &str, answer: ApiAnswer) -> Self {
        let (kind, next) = reaction(&answer);
        let message = if answer.message.is_empty() { format!("HTTP {}", answer.code) } else { answer.message.clone() };
        let error = PortError::new(kind, operation, format!("{message}{next}")).with_code(answer.reason.clone());
        Self { error, answer: Some(Box::new(answer)) }
    }

    /// Whether the object of a deletion does not exist, or has another uid than the request. A webhook may choose the same status codes.
    pub(crate) fn is_gone(&self) -> bool {
        (self.is(404) || self.is(409)) && !self.is_refused_by_admission()
    }

    /// A failure without a response of the API server.
    #[must_use]
    pub fn other(kind: ErrorKind, operation: &str, message: impl Into<String>) -> Self {
        Self { error: PortError::new(kind, operation, message), answer: None }
    }
}

/// The kind of error for a response of the API server, and what the user should do, in addition to its message.
fn reaction(status: &ApiAnswer) -> (ErrorKind, &'static str) {
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
fn is_of_another(status: &ApiAnswer) -> bool {
    let mut causes = status.causes.iter();
    status.code == 422 && causes.any(|cause| cause.field == "metadata.uid")
}

/// What to do about a rejection by admission.
const LET_THROUGH: &str = "; this is no missing right: an admission webhook, a policy or a quota of the cluster refuses it, and has to \
                           let it through";

/// Whether an admission webhook or a ValidatingAdmissionPolicy rejected the request. A webhook chooses the status code, 400 if it sets none
/// (`ToStatusErr` of apiserver's `admission/plugin/webhook/errors`); that of a policy is 422 by default.
fn refused_by_admission(status: &ApiAnswer) -> bool {
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
fn forbids(status: &ApiAnswer) -> Forbids {
    let causes = &status.causes;
    let message = &status.message;
    if causes.iter().any(|cause| cause.reason == "NamespaceTerminating") {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_that_a_webhook_refuses_did_not_find_the_object_gone() {
        let is_gone = |code, message: &str| {
            CallError::answered("delete", ApiAnswer { code, message: message.to_owned(), ..ApiAnswer::default() })
                .is_gone()
        };
        for code in [404, 409] {
            assert!(is_gone(code, "nodes \"a\" not found"), "{code}");
            assert!(!is_gone(code, r#"admission webhook "nodes.example.com" denied the request: not now"#), "{code}");
        }
    }
}
