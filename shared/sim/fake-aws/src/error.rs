//! The errors of EC2: a code for programs and a message for people.

use serde::Serialize;

/// An API error as the AWS SDKs see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Ec2Error {
    /// EC2's error code, for example `InsufficientInstanceCapacity`.
    pub code: String,
    /// EC2's message.
    pub message: String,
    /// The HTTP status of the error.
    pub status: u16,
}

impl Ec2Error {
    /// A client error (HTTP 400).
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status: 400 }
    }

    /// Replaces the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// A required parameter is absent.
    pub fn missing(parameter: &str) -> Self {
        Self::new("MissingParameter", format!("The request must contain the parameter {parameter}"))
    }

    /// A parameter has an invalid value.
    pub fn invalid(parameter: &str, value: impl std::fmt::Display, why: &str) -> Self {
        Self::new("InvalidParameterValue", format!("Value ({value}) for parameter {parameter} is invalid. {why}"))
    }

    /// Two parameters that exclude each other.
    pub fn combination(message: impl Into<String>) -> Self {
        Self::new("InvalidParameterCombination", message)
    }

    /// A feature of EC2 that the simulation does not support.
    pub fn unsupported(what: &str) -> Self {
        Self::new("UnsupportedOperation", format!("The simulated EC2 does not support {what}"))
    }

    /// The answer to a permitted dry run.
    pub fn dry_run() -> Self {
        Self::new("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").with_status(412)
    }

    /// The caller's permissions do not allow `service:api`.
    pub fn unauthorized(service: &str, api: &str, account: &str) -> Self {
        let code = if service == "ec2" { "UnauthorizedOperation" } else { "AccessDeniedException" };
        Self::new(
            code,
            format!(
                "You are not authorized to perform this operation. User: \
                 arn:aws:sts::{account}:assumed-role/simulated/session is not authorized to perform: {service}:{api} \
                 because no identity-based policy allows the {service}:{api} action."
            ),
        )
        .with_status(403)
    }

    /// The account's request rate is exceeded.
    pub fn throttled() -> Self {
        Self::new("RequestLimitExceeded", "Request limit exceeded.").with_status(503)
    }

    /// The request rate is exceeded, as this service reports it.
    pub fn throttled_by(service: &str) -> Self {
        match service {
            "ec2" => Self::throttled(),
            "iam" | "sts" => Self::new("Throttling", "Rate exceeded"),
            _ => Self::new("ThrottlingException", "Rate exceeded"),
        }
    }

    /// A client token was used before with other parameters.
    pub fn token_mismatch() -> Self {
        Self::new(
            "IdempotentParameterMismatch",
            "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
        )
    }

    /// Instances with these ids do not exist.
    pub fn instance_not_found(ids: &[String]) -> Self {
        if let Some(id) = ids.iter().find(|id| !is_instance_id(id)) {
            return Self::new("InvalidInstanceID.Malformed", format!("Invalid id: \"{id}\""));
        }
        let message = match ids {
            [id] => format!("The instance ID '{id}' does not exist"),
            ids => format!("The instance IDs '{}' do not exist", ids.join(", ")),
        };
        Self::new("InvalidInstanceID.NotFound", message)
    }

    /// The error of the query protocol for an action that is not served.
    pub fn unknown_action(action: &str) -> Self {
        Self::new("InvalidAction", format!("The action {action} is not valid for this web service."))
    }

    /// The error of the JSON and REST protocols for an operation that is not served.
    pub fn unknown_operation(operation: &str) -> Self {
        let message = format!("The simulated account does not serve {operation}.");
        Self::new("UnknownOperationException", message).with_status(404)
    }
}

/// Whether a text has the form of an instance's id.
fn is_instance_id(id: &str) -> bool {
    let digits = id.strip_prefix("i-").unwrap_or_default();
    matches!(digits.len(), 8 | 17) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
