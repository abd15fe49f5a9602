//! Validating admission webhooks: which of them match a write, and their AdmissionReviews.

use crate::server::path::{Path as _, text};
use std::net::IpAddr;
use std::time::Duration;

use kube_cel::{KubeCelExt as _, cel};
use serde_json::{Value, json};

use super::conversion;
use super::definition::Definition;
use super::pairs;
use super::resource::{NAMESPACES, VALIDATING_WEBHOOK_CONFIGURATIONS};
use super::selectors::LabelSelector;
use super::status::Status;
use super::store::Store;

/// One webhook call for a write.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) webhook: String,
    pub(crate) url: String,
    pub(crate) timeout: Duration,
    /// Whether a failure of the call rejects the write.
    pub(crate) fail_closed: bool,
    pub(crate) review: Value,
    /// Set if a match condition could not be evaluated, or the URL may not be called; then nothing is sent.
    pub(crate) broken: Option<String>,
}

/// Compiles an expression; the error is a message.
pub(crate) fn compile(expression: &str) -> Result<cel::Program, String> {
    cel::Program::compile(expression).map_err(|error| format!("compilation failed: {error}"))
}

/// Whether webhooks may be called for a write, by the rules alone: `CREATE`, `UPDATE` or `DELETE`.
pub(crate) fn concerns(store: &Store, definition: &Definition, operation: &str) -> bool {
    let configurations = store.iter(&VALIDATING_WEBHOOK_CONFIGURATIONS.storage_key(), None);
    let webhooks = configurations.filter_map(|(_, configuration)| configuration["webhooks"].as_array()).flatten();
    webhooks.into_iter().any(|webhook| matching_face(store, definition, webhook, operation).is_some())
}

/// The calls for a write: `CREATE`, `UPDATE` or `DELETE`.
pub(crate) fn calls(
    store: &mut Store,
    definition: &Definition,
    operation: &str,
    object: &Value,
    old: &Value,
    dry_run: bool,
) -> Vec<Call> {
    let configurations: Vec<_> = store
        .iter(&VALIDATING_WEBHOOK_CONFIGURATIONS.storage_key(), None)
        .map(|(_, configuration)| configuration.clone())
        .collect();
    let mut found = Vec::new();
    // A webhook must not block its own deletion.
    if definition.resource == VALIDATING_WEBHOOK_CONFIGURATIONS {
        return found;
    }
    for configuration in configurations {
        for webhook in configuration["webhooks"].as_array().into_iter().flatten() {
            let Some(face) = matching_face(store, definition, webhook, operation) else { continue };
            if selected(store, definition, webhook, object, old) {
                found.extend(call(store, &face, webhook, &Write { operation, object, old, dry_run }));
            }
        }
    }
    found
}

/// The resource version in which a webhook receives the object, if it matches.
fn matching_face(store: &Store, definition: &Definition, webhook: &Value, operation: &str) -> Option<Definition> {
    let rules = webhook["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let matches = |definition: &Definition| rules.iter().any(|rule| rule_matches(rule, definition, operation));
    if matches(definition) {
        return Some(definition.clone());
    }
    let other = store.definition_of(pairs::other(&definition.resource)?).ok()?;
    (webhook["matchPolicy"] != "Exact" && matches(&other)).then(|| other.as_ref().clone())
}

fn rule_matches(rule: &Value, definition: &Definition, operation: &str) -> bool {
    let resource = &definition.resource;
    let contains = |field: &str, requested: &str| {
        let list = rule[field].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().any(|value| value == "*" || value == requested || (field == "resources" && value == "*/*"))
    };
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => !resource.namespaced,
        Some("Namespaced") => resource.namespaced,
        _ => true,
    };
    scope
        && contains("operations", operation)
        && contains("apiGroups", &resource.group)
        && contains("apiVersions", &resource.version)
        && contains("resources", &resource.plural)
}

fn selected(store: &Store, definition: &Definition, webhook: &Value, object: &Value, old: &Value) -> bool {
    let selector = |field: &str| LabelSelector::from_object(&webhook[field]).ok().flatten().unwrap_or_default();
    let objects = selector("objectSelector");
    let any_object = [object, old].into_iter().any(|object| !object.is_null() && objects.matches(object));
    let namespaces = selector("namespaceSelector");
    let namespace = if definition.resource == NAMESPACES {
        Some(object.clone())
    } else {
        let name = text(if object.is_null() { old } else { object }, "/metadata/namespace").to_owned();
        let key = (String::new(), name);
        store.get(&NAMESPACES.storage_key(), &key).map(|namespace| namespace.as_ref().clone())
    };
    (objects.is_empty() || any_object)
        && (namespaces.is_empty() || namespace.is_none_or(|namespace| namespaces.matches(&namespace)))
}

/// A write of an object from `old`; either is null if it does not exist.
struct Write<'w> {
    operation: &'w str,
    object: &'w Value,
    old: &'w Value,
    dry_run: bool,
}

fn call(store: &mut Store, face: &Definition, webhook: &Value, write: &Write<'_>) -> Option<Call> {
    let resource = &face.resource;
    let show = |object: &Value| {
        if object.is_null() {
            return Value::Null;
        }
        conversion::to_version(face, &std::sync::Arc::new(object.clone())).as_ref().clone()
    };
    let (object, old) = (show(write.object), show(write.old));
    let subject = if object.is_null() { &old } else { &object };
    let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let plural = json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
    let request = json!({
        "uid": store.next_uid(), "kind": kind, "resource": plural, "requestKind": kind, "requestResource": plural,
        "name": text(subject, "/metadata/name"), "namespace": text(subject, "/metadata/namespace"),
        "operation": write.operation,
        "userInfo": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
        "object": object, "oldObject": old, "dryRun": write.dry_run, "options": null,
    });
    let fail_closed = webhook["failurePolicy"] != "Ignore";
    let url = text(webhook, "/clientConfig/url");
    let broken = match conditions_hold(webhook, &request) {
        Ok(true) => (!store.remote_webhooks && is_elsewhere(url))
            .then(|| format!("{url:?}: webhooks are called on this machine alone (127.0.0.1, [::1] or localhost)")),
        Ok(false) => return None,
        Err(error) => Some(error),
    };
    let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
    Some(Call {
        webhook: text(webhook, "/name").to_owned(),
        url: url.to_owned(),
        timeout: Duration::from_secs(seconds.clamp(1, 30)),
        fail_closed,
        review: json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}),
        broken,
    })
}

/// Whether the host of a URL is neither a loopback address nor `localhost`. What is no URL is never called.
fn is_elsewhere(url: &str) -> bool {
    let Ok(uri) = url.parse::<axum::http::Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    !host.eq_ignore_ascii_case("localhost") && !address.is_ok_and(|address| address.is_loopback())
}

/// Whether all match conditions are true. A false one takes precedence over one that fails.
fn conditions_hold(webhook: &Value, request: &Value) -> Result<bool, String> {
    let conditions = webhook["matchConditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut failure = None;
    for condition in conditions {
        match condition_holds(text(condition, "/expression"), request) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => failure = Some(format!("match condition {:?}: {error}", text(condition, "/name"))),
        }
    }
    failure.map_or(Ok(true), Err)
}

fn condition_holds(expression: &str, request: &Value) -> Result<bool, String> {
    let program = compile(expression)?;
    let mut context = cel::Context::default().with_all();
    for (name, value) in [("request", request), ("object", &request["object"]), ("oldObject", &request["oldObject"])] {
        context.add_variable(name, value).map_err(|error| error.to_string())?;
    }
    match program.execute(&context) {
        Ok(cel::Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("expected a bool, got {other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Makes a call. A rejection, or a failure that counts as one, is an error.
pub(crate) async fn send(call: &Call) -> Result<(), Status> {
    let failure = match &call.broken {
        Some(broken) => broken.clone(),
        None => match tokio::time::timeout(call.timeout, post(&call.url, &call.review)).await {
            Ok(Ok(answer)) => match verdict(call, &answer) {
                Ok(verdict) => return verdict,
                Err(error) => error,
            },
            Ok(Err(error)) => error,
            Err(_) => format!("no answer within {:?}", call.timeout),
        },
    };
    if call.fail_closed {
        let text = format!(
            "Internal error occurred: failed calling webhook {:?}: failed to call webhook: {failure}",
            call.webhook
        );
        return Err(Status::new(500, "InternalError", text));
    }
    tracing::warn!(webhook = call.webhook, error = failure, "an admission webhook failed and is ignored");
    Ok(())
}

fn verdict(call: &Call, answer: &Value) -> Result<Result<(), Status>, String> {
    let response =
        answer.get("response").filter(|response| response.is_object()).ok_or("the answer has no response")?;
    if response["uid"] != call.review["request"]["uid"] {
        return Err("the answer is to another request (uid)".into());
    }
    match response["allowed"].as_bool() {
        Some(true) => Ok(Ok(())),
        Some(false) => {
            let reason = text(response, "/status/message");
            let reason = if reason.is_empty() { "without explanation" } else { reason };
            let text = format!("admission webhook {:?} denied the request: {reason}", call.webhook);
            let code = response.at("/status/code").and_then(Value::as_u64).unwrap_or(403);
            Ok(Err(Status::new(u16::try_from(code).unwrap_or(403), "Forbidden", text)))
        }
        None => Err("the answer has no field `allowed`".into()),
    }
}

async fn post(url: &str, review: &Value) -> Result<Value, String> {
    use axum::http::{Request, Uri, header};
    use http_body_util::{BodyExt as _, Full};
    use hyper_util::{client::legacy::Client, rt::TokioExecutor};

    let uri: Uri = url.parse().map_err(|error| format!("{url:?} is no URL: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err(format!("{url:?}: this API server calls webhooks over plain http only"));
    }
    let body = serde_json::to_vec(review).map_err(|error| error.to_string())?;
    let request = Request::post(uri)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(Full::new(axum::body::Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<axum::body::Bytes>>();
    let answer = client.request(request).await.map_err(|error| format!("{url}: {error}"))?;
    if !answer.status().is_success() {
        return Err(format!("{url} answered {}", answer.status()));
    }
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| format!("the answer is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::is_elsewhere;

    #[test]
    fn only_loopback_addresses_are_of_this_machine() {
        for own in ["http://127.0.0.1:8080/a", "http://127.9.9.9", "http://[::1]:80/", "http://LocalHost:1/"] {
            assert!(!is_elsewhere(own), "{own}");
        }
        for other in [
            "http://169.254.169.254/latest",
            "http://localhost.example",
            "http://127.0.0.1.example",
            "http://127.0.0.1@attacker.example/",
            "http://[::ffff:10.0.0.1]/",
            "http://0.0.0.0/",
            "http://2130706433/",
            "/path",
        ] {
            assert!(is_elsewhere(other), "{other}");
        }
    }
}
