//! The error of all ports. Its kind determines how the caller reacts.

use std::fmt;

/// The kind of a failed call, by the reaction that it requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The service did not answer, or failed: retry later, and do nothing meanwhile.
    Unavailable,
    /// Throttled: retry later, and more slowly.
    Throttled,
    /// A permission is missing: a user has to grant it. An immediate retry does not help.
    Denied,
    /// The object does not exist.
    NotFound,
    /// Another writer changed the object first: read it again and decide again.
    Conflict,
    /// The call itself is invalid. A retry does not help.
    Invalid,
}

/// A failed call through a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortError {
    /// The kind, which determines how the caller reacts.
    pub kind: ErrorKind,
    /// The service and the operation, such as `EC2 CreateFleet` or `Kubernetes list pods`.
    pub operation: String,
    /// The service's own code, such as `UnauthorizedOperation`; empty if there is none.
    pub code: String,
    /// The message of the service, and what to do next if that is known.
    pub message: String,
}

impl PortError {
    /// An error without a service code.
    pub fn new(kind: ErrorKind, operation: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, operation: operation.into(), code: String::new(), message: message.into() }
    }

    /// This error with the service's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// Whether a later retry may succeed.
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

/// An error and its causes, separated by colons. A cause that the text before it states already is left out.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let causes = std::iter::successors(error.source(), |error| error.source());
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failed {
        text: &'static str,
        source: Option<Box<Failed>>,
    }

    #[test]
    fn causes_follow_their_error_once() {
        let failed = |text, source: Option<Failed>| Failed { text, source: source.map(Box::new) };
        let error = failed("dispatch failure", Some(failed("no credentials", Some(failed("no credentials", None)))));
        assert_eq!(with_causes(&error), "dispatch failure: no credentials");
        let refused = failed("connection: refused", Some(failed("refused", Some(failed("os error 111", None)))));
        assert_eq!(with_causes(&refused), "connection: refused: os error 111");
    }
}
