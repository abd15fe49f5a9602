//! Get and list of metrics.

use super::request::{Call, Target};
use super::respond::{self, Form};
use crate::server::api::ApiServer;
use crate::server::field_selector::FieldSelector;
use crate::server::metrics::{self, GROUP};
use crate::server::status::Status;
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

/// The response to a request about metrics.
pub(super) fn answer(server: &ApiServer, call: &Call, target: &Target, method: &Method) -> Result<Response, Status> {
    if method != Method::GET || call.flag("watch") {
        return Err(Status::method_not_allowed());
    }
    let definition = &target.definition;
    let options = call.list_options(target)?;
    let fields = FieldSelector::parse(definition, &options.fields)?;
    let (store, now) = (server.store(), server.now());
    let revision = store.revision.to_string();
    let mut found = metrics::list(&store, &definition.resource, target.namespace.as_deref(), &options.labels, now);
    drop(store);
    // metrics-server has tables, too; clients that ask for one accept whole objects as well.
    let form = if call.form() == Form::Partial { Form::Partial } else { Form::Full };
    let Some(name) = &target.name else {
        found.retain(|object| fields.matches(object));
        return Ok(respond::list(definition, form, "", &found, &json!({ "resourceVersion": revision }), server.ages()));
    };
    let named = |object: &&Arc<Value>| object["metadata"]["name"] == *name;
    let object = found.iter().find(named).ok_or_else(|| Status::not_found(&definition.resource, name))?;
    Ok(respond::object(definition, form, "", 200, object, server.ages()))
}

/// Whether a target is one of metrics.
pub(super) fn is_measured(target: &Target) -> bool {
    target.definition.resource.group == GROUP
}
