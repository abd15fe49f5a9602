//! The error of every operation: a `metav1.Status`, as the API server would send it.

use serde_json::{Value, json};

use crate::server::resource::Resource;

/// One cause inside a [`Status`], such as an invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable reason, for example `FieldValueInvalid` or `DisruptionBudget`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// Path of the field, when the cause is about one.
    pub field: Option<String>,
}

/// The resource that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the resource (kind, in errors about validity).
    pub kind: String,
}

/// A rejected or failed request. Displays its message; [`Status::to_value`] returns the `metav1.Status` object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound` or `Conflict`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// Name of the object concerned; unset if there is none.
    pub name: Option<Box<str>>,
    /// The resource concerned.
    pub subject: Option<Box<Subject>>,
    /// Detailed causes.
    pub causes: Vec<Cause>,
    /// Seconds after which a retry may succeed.
    pub retry_after_seconds: Option<u32>,
    /// The metadata with which a list continues whose continue token has expired.
    pub list: Option<Box<ListMeta>>,
}

/// The metadata of a list in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMeta {
    /// The continue token of the next page.
    pub continue_token: String,
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, for example `spec.containers[0].name`.
    pub field: String,
    /// Machine-readable reason, for example `FieldValueRequired`.
    pub reason: &'static str,
    /// The whole message without the field path.
    pub message: String,
}

impl FieldError {
    /// A required field is missing.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() { "Required value".into() } else { format!("Required value: {detail}") };
        Self { field: field.into(), reason: "FieldValueRequired", message }
    }

    /// A field has an invalid value.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueInvalid", message: format!("Invalid value: {value}: {detail}") }
    }

    /// A field that must not be set or changed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueForbidden", message: format!("Forbidden: {detail}") }
    }

    /// A field with an unsupported value.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Self { field: field.into(), reason: "FieldValueNotSupported", message }
    }
}

impl Status {
    /// An error with the given code, reason and message and no details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            name: None,
            subject: None,
            causes: Vec::new(),
            retry_after_seconds: None,
            list: None,
        }
    }

    /// Adds which object the error is about.
    #[must_use]
    pub fn about(mut self, resource: &Resource, name: &str) -> Self {
        let (group, kind) = (resource.group.to_string(), resource.plural.to_string());
        self.name = (!name.is_empty()).then(|| name.into());
        self.subject = Some(Box::new(Subject { group, kind }));
        self
    }

    /// Adds a cause that is not about a field.
    #[must_use]
    pub fn caused_by(mut self, reason: &str, message: impl Into<String>) -> Self {
        self.causes.push(Cause { reason: reason.into(), message: message.into(), field: None });
        self
    }

    /// Adds the seconds after which to retry.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// Adds the token with which a list goes on.
    #[must_use]
    pub fn continued_by(mut self, token: String) -> Self {
        self.list = Some(Box::new(ListMeta { continue_token: token }));
        self
    }

    /// The object does not exist.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified_plural());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// Nothing is served at this path.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// The object exists already.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified_plural());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// The object was changed in the meantime, or a precondition fails.
    pub fn conflict(resource: &Resource, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {detail}", resource.qualified_plural());
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The resourceVersion sent is not the latest.
    pub fn stale(resource: &Resource, name: &str) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, detail)
    }

    /// An internal error (500).
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// A bad request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The request is forbidden.
    pub fn forbidden(resource: &Resource, name: &str, detail: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {detail}", resource.qualified_plural());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// The object is not valid.
    pub fn invalid(resource: &Resource, name: &str, errors: Vec<FieldError>) -> Self {
        let texts: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
        let list = if texts.len() == 1 { texts[0].clone() } else { format!("[{}]", texts.join(", ")) };
        let kind = if resource.group.is_empty() {
            resource.kind.to_string()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let mut status = Self::new(422, "Invalid", format!("{kind} {name:?} is invalid: {list}")).about(resource, name);
        if let Some(subject) = &mut status.subject {
            subject.kind = resource.kind.to_string();
        }
        status.causes = errors
            .into_iter()
            .map(|error| Cause { reason: error.reason.into(), message: error.message, field: Some(error.field) })
            .collect();
        status
    }

    /// The resourceVersion or continue token is older than the history kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The resource exists and does not support this verb.
    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// The `metav1.Status` object. As from the real server, errors with these reasons have no `details` if there are none; others have
    /// them even if they are empty, which clients such as `kubectl debug` read without a check.
    pub fn to_value(&self) -> Value {
        let mut details = serde_json::Map::new();
        let subject = self.subject.as_deref();
        let fields = [
            ("name", self.name.as_deref()),
            ("group", subject.map(|subject| subject.group.as_str())),
            ("kind", subject.map(|subject| subject.kind.as_str())),
        ];
        for (key, value) in fields {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                details.insert(key.into(), json!(value));
            }
        }
        if !self.causes.is_empty() {
            let causes: Vec<Value> = self.causes.iter().map(Cause::to_value).collect();
            details.insert("causes".into(), Value::Array(causes));
        }
        if let Some(seconds) = self.retry_after_seconds {
            details.insert("retryAfterSeconds".into(), json!(seconds));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !details.is_empty() || !matches!(self.reason, "" | "BadRequest" | "UnsupportedMediaType" | "Expired") {
            status["details"] = Value::Object(details);
        }
        if let Some(list) = &self.list {
            status["metadata"]["continue"] = json!(list.continue_token);
        }
        status
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut cause = json!({"reason": self.reason, "message": self.message});
        if let Some(field) = &self.field {
            cause["field"] = json!(field);
        }
        cause
    }
}
