//! Create, update, patch and delete, and the subresources of pods.

use std::sync::Arc;

use axum::response::Response;
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::request::{Call, Target};
use super::{body, respond, show};
use crate::server::admission;
use crate::server::api::{ApiServer, CreateOptions, PatchOptions, UpdateOptions};
use crate::server::field_selector::FieldSelector;
use crate::server::patch::PatchType;
use crate::server::patching::resized;
use crate::server::path::text;
use crate::server::scale;
use crate::server::status::Status;
use crate::server::unknown_fields::{prune, unknown_fields};
use crate::server::writes::{self, Part, RESIZE};

/// Calls the webhooks for a write, then performs it. `write` takes the server and whether it is a dry run.
async fn reviewed<T>(
    server: &ApiServer,
    target: &Target,
    old: Option<Arc<Value>>,
    dry_run: bool,
    shown: impl Fn(&T) -> Arc<Value>,
    write: impl Fn(&ApiServer, bool) -> Result<T, Status>,
) -> Result<T, Status> {
    let server = server.reviewed();
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    if !admission::concerns(&server.store(), &target.definition, operation) {
        return write(&server, dry_run);
    }
    let would = write(&server, true)?;
    let before = old.as_deref().cloned().unwrap_or_default();
    let calls = server.calls(&target.definition.resource, operation, &shown(&would), &before, dry_run)?;
    try_join_all(calls.iter().map(admission::send)).await?;
    if dry_run { Ok(would) } else { write(&server, false) }
}

fn place(target: &Target, object: &mut Value) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::bad_request("the body of the request has to be an object"));
    }
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    if let Some(namespace) = &target.namespace {
        let given = text(object, "/metadata/namespace");
        if !given.is_empty() && given != namespace {
            let text = format!(
                "the namespace of the provided object does not match the namespace sent on the request: {given}, \
                 {namespace}"
            );
            return Err(Status::bad_request(text));
        }
        object["metadata"]["namespace"] = json!(namespace);
    }
    Ok(())
}

pub(super) async fn post(server: &ApiServer, call: &Call, target: &Target, bytes: &[u8]) -> Result<Response, Status> {
    if matches!(target.subresource.as_deref(), Some("exec" | "attach" | "portforward")) {
        return super::reads::get(server, call, target);
    }
    let mut object = body::parse(call, bytes)?;
    match (target.name.as_deref(), target.subresource.as_deref()) {
        (None, None) => {}
        (Some(pod), Some("binding")) => {
            server.bind_with(target.namespace(), pod, &object)?;
            return Ok(respond::json(201, &success(201)));
        }
        (Some(pod), Some("eviction")) => {
            if !matches!(text(&object, "/apiVersion"), "policy/v1" | "") {
                return Err(Status::bad_request("an eviction has to be of policy/v1"));
            }
            if text(&object, "/metadata/name") != pod {
                return Err(Status::bad_request("name in URL does not match name in Eviction object"));
            }
            let mut options = body::delete_options(call, object.get("deleteOptions"))?;
            options.dry_run |= call.dry_run()?;
            server.evict(target.namespace(), pod, &options)?;
            return Ok(respond::json(201, &success(201)));
        }
        _ => return Err(Status::method_not_allowed()),
    }
    if target.definition.resource.namespaced && target.namespace.is_none() {
        return Err(Status::method_not_allowed());
    }
    place(target, &mut object)?;
    let unknown = check_fields(call, target, &mut object)?;
    // Before the webhooks receive the object, so that it has its name.
    writes::generate_name(&mut server.store(), &mut object);
    let manager = Some(call.field_manager());
    let created = reviewed(server, target, None, call.dry_run()?, Arc::clone, |server, dry_run| {
        let options = CreateOptions { field_manager: manager.clone(), dry_run };
        server.create(&target.definition.resource, object.clone(), &options)
    })
    .await?;
    Ok(respond::with_warnings(show(server, call, target, 201, &created), &unknown))
}

/// Removes the fields of an object that its kind does not have, and returns a warning for each; with `fieldValidation=Strict` they are an
/// error.
fn check_fields(call: &Call, target: &Target, object: &mut Value) -> Result<Vec<String>, Status> {
    let validation = call.parameter("fieldValidation");
    if !matches!(validation, None | Some("Strict" | "Warn" | "Ignore")) {
        let other = validation.unwrap_or_default();
        return Err(Status::bad_request(format!("fieldValidation {other:?} is not supported")));
    }
    let unknown = unknown_fields(&target.definition, object);
    let unknown: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
    if unknown.is_empty() {
        return Ok(unknown);
    }
    if validation == Some("Strict") {
        let resource = &target.definition.resource;
        let text = format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            unknown.join(", ")
        );
        return Err(Status::bad_request(text));
    }
    prune(&target.definition, object);
    Ok(if validation == Some("Ignore") { Vec::new() } else { unknown })
}

fn success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}

pub(super) async fn put(server: &ApiServer, call: &Call, target: &Target, bytes: &[u8]) -> Result<Response, Status> {
    let name = target.name.as_deref().ok_or_else(Status::method_not_allowed)?;
    let mut object = body::parse(call, bytes)?;
    let resource = &target.definition.resource;
    let old = server.get(resource, target.namespace(), name)?;
    let part = match target.subresource.as_deref() {
        None => Part::Object,
        Some("status") => Part::Status,
        Some("scale") => {
            object = scale::write(&target.definition, &old, &object)?;
            Part::Whole("scale")
        }
        Some(RESIZE) => {
            object = resized(&old, &object)?;
            Part::Whole(RESIZE)
        }
        Some("finalize") => Part::Whole("finalize"),
        Some(_) => return Err(Status::method_not_allowed()),
    };
    place(target, &mut object)?;
    let unknown = if part == Part::Whole("scale") { Vec::new() } else { check_fields(call, target, &mut object)? };
    let given = text(&object, "/metadata/name");
    if given != name {
        let text = format!("the name of the object ({given}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(text));
    }
    let manager = Some(call.field_manager());
    let updated = reviewed(server, target, Some(old), call.dry_run()?, Arc::clone, |server, dry_run| {
        let options = UpdateOptions { field_manager: manager.clone(), dry_run };
        server.update_part(resource, object.clone(), part, &options)
    })
    .await?;
    if part == Part::Whole("scale") {
        return Ok(respond::json(200, &scale::read(&target.definition, &updated)?));
    }
    Ok(respond::with_warnings(show(server, call, target, 200, &updated), &unknown))
}

pub(super) async fn patch(server: &ApiServer, call: &Call, target: &Target, bytes: &[u8]) -> Result<Response, Status> {
    let name = target.name.as_deref().ok_or_else(Status::method_not_allowed)?;
    let mut patch = body::parse(call, bytes)?;
    let kind = match call.content_type.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        "application/strategic-merge-patch+json" => PatchType::Strategic,
        "application/apply-patch+yaml" => PatchType::Apply,
        other => {
            let text = format!(
                "the body of the request was in an unknown format ({other}) - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json, application/apply-patch+yaml"
            );
            return Err(Status::new(415, "UnsupportedMediaType", text));
        }
    };
    // Other patches have the structure of the object, and may contain directives.
    let is_object = kind != PatchType::Json && target.subresource.as_deref() != Some("scale");
    let unknown = if is_object { check_fields(call, target, &mut patch)? } else { Vec::new() };
    // Unlike other writes, an apply requires a field manager.
    let manager = match kind {
        PatchType::Apply => call.parameter("fieldManager").map(str::to_owned),
        _ => Some(call.field_manager()),
    };
    let force = call.flag("force");
    let resource = &target.definition.resource;
    let old = server.get(resource, target.namespace(), name).ok();
    let code = if old.is_some() { 200 } else { 201 };
    let patched = reviewed(server, target, old, call.dry_run()?, Arc::clone, |server, dry_run| {
        let options = PatchOptions { field_manager: manager.clone(), force, dry_run };
        let subresource = target.subresource.as_deref();
        server.patch(resource, target.namespace(), name, subresource, kind, &patch, &options)
    })
    .await?;
    Ok(respond::with_warnings(show(server, call, target, code, &patched), &unknown))
}

pub(super) async fn delete(server: &ApiServer, call: &Call, target: &Target, bytes: &[u8]) -> Result<Response, Status> {
    if target.subresource.is_some() {
        return Err(Status::method_not_allowed());
    }
    let options = if bytes.is_empty() { None } else { Some(body::parse(call, bytes)?) };
    let options = body::delete_options(call, options.as_ref())?;
    let resource = &target.definition.resource;
    let Some(name) = target.name.as_deref() else {
        let list = call.list_options(target)?;
        FieldSelector::parse(&target.definition, &list.fields)?;
        let found = server.list(resource, &list)?;
        for object in &found.items {
            let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
            ask_about_deletion(server, target, object, options.dry_run).await?;
            match server.delete(resource, namespace, name, &options) {
                Ok(_) => {}
                // Deleted meanwhile, perhaps with its owner.
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let metadata = json!({"resourceVersion": server.revision().to_string()});
        return Ok(respond::list(
            &target.definition,
            call.form(),
            call.include(),
            &found.items,
            &metadata,
            server.ages(),
        ));
    };
    let old = server.get(resource, target.namespace(), name)?;
    ask_about_deletion(server, target, &old, options.dry_run).await?;
    let (object, gone) = server.delete_or_mark(resource, target.namespace(), name, &options)?;
    // Deleted pods are always returned, other objects only while they wait for something.
    if gone && resource.kind != "Pod" {
        let mut status = success(200);
        status["details"] = json!({"name": name, "group": resource.group, "kind": resource.plural,
            "uid": object["metadata"]["uid"]});
        if let Some(map) = status.as_object_mut() {
            map.remove("code");
        }
        return Ok(respond::json(200, &status));
    }
    Ok(show(server, call, target, 200, &object))
}

async fn ask_about_deletion(
    server: &ApiServer,
    target: &Target,
    old: &Arc<Value>,
    dry_run: bool,
) -> Result<(), Status> {
    let calls = server.calls(&target.definition.resource, "DELETE", &Value::Null, old, dry_run)?;
    try_join_all(calls.iter().map(admission::send)).await.map(|_| ())
}
