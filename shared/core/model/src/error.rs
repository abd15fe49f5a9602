//! One error for all ports, whose kind determines how the caller reacts.

use std::fmt;

/// How to react to a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The service did not answer, or failed: retry later, and act on nothing meanwhile.
    Unavailable,
    /// Too many calls: try again later, more slowly.
    Throttled,
    /// We may not do this: a person has to grant it; trying again at once is of no use.
    Denied,
    /// The thing is not there.
    NotFound,
    /// The object was changed by another writer first: read it again and decide again.
    Conflict,
    /// The call itself is wrong, or names something that cannot be used: trying again is of no use.
    Invalid,
}

/// A call through a port that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortError {
    /// How to react.
    pub kind: ErrorKind,
    /// What was called: the service and the operation, such as `EC2 CreateFleet` or `Kubernetes list pods`.
    pub operation: String,
    /// The service's own code, such as `UnauthorizedOperation`; empty if there is none.
    pub code: String,
    /// The message of the service, and what to do next where that is known.
    pub message: String,
}

impl PortError {
    /// An error without a service code.
    pub fn new(kind: ErrorKind, operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, operation: operation.into(), code: String::new(), message: message.into() }
    }

    /// The same error with the service's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// Whether trying the same call again later may succeed.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Throttled | ErrorKind::Conflict)
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let did = match self.kind {
            ErrorKind::Unavailable => "could not be reached or failed",
            ErrorKind::Throttled => "was throttled",
            ErrorKind::Denied => "was denied",
            ErrorKind::NotFound => "found nothing",
            ErrorKind::Conflict => "met a newer version",
            ErrorKind::Invalid => "was refused",
        };
        write!(f, "{} {did}: ", self.operation)?;
        if !self.code.is_empty() {
            write!(f, "{}: ", self.code)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for PortError {}
