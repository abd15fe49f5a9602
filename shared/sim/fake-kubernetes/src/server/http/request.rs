//! The parameters of a request: path, query and headers.

use std::sync::Arc;

use axum::http::{header, request::Parts};

use super::respond::Form;
use crate::server::api::{ApiServer, ListOptions};
use crate::server::definition::Definition;
use crate::server::metrics;
use crate::server::selectors::LabelSelector;
use crate::server::status::Status;

/// The parts of a request except for its body.
pub(super) struct Call {
    pub(super) path: String,
    query: Vec<(String, String)>,
    pub(super) accept: String,
    pub(super) content_type: String,
    user_agent: String,
}

impl Call {
    pub(super) fn new(parts: &Parts) -> Result<Self, Status> {
        let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let query = parts.uri.query().unwrap_or_default();
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let call = Self {
            path: parts.uri.path().to_owned(),
            query,
            accept: text(header::ACCEPT),
            content_type: text(header::CONTENT_TYPE),
            user_agent: text(header::USER_AGENT),
        };
        let accept = &call.accept;
        let is_other_text = call.path.contains("/log") || call.path == "/openapi/v2";
        if !accept.is_empty() && !accept.contains("json") && !accept.contains('*') && !is_other_text {
            let text = format!("only JSON is served here; the client accepts {accept:?} only");
            return Err(Status::new(406, "NotAcceptable", text));
        }
        Ok(call)
    }

    pub(super) fn segments(&self) -> Vec<&str> {
        self.path.split('/').filter(|segment| !segment.is_empty()).collect()
    }

    /// A query parameter; empty counts as absent.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// A parameter that is true or false. As in Kubernetes, everything but `0` and `false` is true: the Python client sends `True`.
    pub(super) fn flag(&self, name: &str) -> bool {
        let value = self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A number in a query parameter.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Status> {
        let invalid = |value: &str| Status::bad_request(format!("invalid {name} {value:?}: a number is needed"));
        self.parameter(name).map(|value| value.parse().map_err(|_| invalid(value))).transpose()
    }

    pub(super) fn dry_run(&self) -> Result<bool, Status> {
        match self.parameter("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let text = format!("dryRun: Unsupported value: {other:?}: supported values: \"All\"");
                Err(Status::new(422, "Invalid", text))
            }
        }
    }

    /// The field manager: the parameter, or the name of the client's program.
    pub(super) fn field_manager(&self) -> String {
        let named = self.parameter("fieldManager");
        let program = self.user_agent.split(['/', ' ']).next().unwrap_or_default();
        named.unwrap_or(if program.is_empty() { "unknown" } else { program }).to_owned()
    }

    /// The format of the answer: the first supported one in `Accept`.
    pub(super) fn form(&self) -> Form {
        for accepted in self.accept.split(',') {
            if accepted.contains("as=Table") && accepted.contains("v=v1;") | accepted.ends_with("v=v1") {
                return Form::Table;
            }
            if accepted.contains("as=PartialObjectMetadata") {
                return Form::Partial;
            }
            let plain = accepted.split(';').next().unwrap_or_default().trim();
            if matches!(plain, "application/json" | "*/*" | "application/*") && !accepted.contains("as=") {
                return Form::Full;
            }
        }
        Form::Full
    }

    /// The part of the object that each row of a table contains.
    pub(super) fn include(&self) -> &str {
        self.parameter("includeObject").unwrap_or("Metadata")
    }

    pub(super) fn list_options(&self, target: &Target) -> Result<ListOptions, Status> {
        Ok(ListOptions {
            namespace: target.namespace.clone(),
            labels: LabelSelector::parse(self.parameter("labelSelector").unwrap_or_default())?,
            fields: self.parameter("fieldSelector").unwrap_or_default().to_owned(),
        })
    }
}

/// The resource in a path.
pub(super) struct Target {
    pub(super) definition: Arc<Definition>,
    /// Unset for cluster-scoped resources and for lists of all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Target {
    pub(super) fn parse(server: &ApiServer, call: &Call) -> Result<Self, Status> {
        let segments = call.segments();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(Status::no_such_resource()),
        };
        let store = server.store();
        let find = |plural: &str| {
            store.definition(group, version, plural).or_else(|| metrics::definition(group, version, plural))
        };
        let (namespace, rest) = match rest {
            // `namespaces/NAME/status` is about the namespace, `namespaces/NAME/pods` about its contents.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let Some((plural, rest)) = rest.split_first() else { return Err(Status::no_such_resource()) };
        let definition = find(plural).ok_or_else(Status::no_such_resource)?;
        if namespace.is_some() != definition.resource.namespaced && (namespace.is_some() || !rest.is_empty()) {
            return Err(Status::no_such_resource());
        }
        let name = rest.first().map(|name| (*name).to_owned());
        let subresource = (rest.len() > 1).then(|| rest[1].to_owned());
        if let Some(subresource) = &subresource
            && (!definition.subresources().contains(&subresource.as_str()) || rest.len() > 2)
        {
            return Err(Status::no_such_resource());
        }
        Ok(Self { definition, namespace, name, subresource })
    }

    pub(super) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}
