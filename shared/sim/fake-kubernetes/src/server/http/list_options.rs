//! The options of lists and watches: what a real API server refuses, and how it reads numbers (`ValidateListOptions` of apimachinery).

use super::request::Call;
use crate::server::resource::Resource;
use crate::server::status::{FieldError, Status};
use serde_json::json;

/// How errors name the options.
const LIST_OPTIONS: Resource = Resource::new("meta.k8s.io", "v1", "", "ListOptions", false);
const EXACT: &str = "Exact";
const NOT_OLDER_THAN: &str = "NotOlderThan";
const MATCH: &str = "resourceVersionMatch";

/// Checks the options that are about revisions.
pub(super) fn check(call: &Call, is_watch: bool) -> Result<(), Status> {
    let errors = if is_watch { of_watch(call) } else { of_list(call) };
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&LIST_OPTIONS, "", errors)) }
}

fn of_list(call: &Call) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(asked) = call.parameter(MATCH) {
        let revision = call.parameter("resourceVersion");
        if revision.is_none() {
            errors.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if call.parameter("continue").is_some() {
            errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        if ![EXACT, NOT_OLDER_THAN].contains(&asked) {
            errors.push(FieldError::not_supported(MATCH, &json!(asked), &[EXACT, NOT_OLDER_THAN, ""]));
        }
        if asked == EXACT && revision == Some("0") {
            errors.push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
    }
    if call.parameter("sendInitialEvents").is_some() {
        let field = "sendInitialEvents";
        errors.push(FieldError::forbidden(field, "sendInitialEvents is forbidden for list"));
    }
    errors
}

fn of_watch(call: &Call) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let asked = call.parameter(MATCH);
    let initial = call.parameter("sendInitialEvents").is_some();
    if initial && asked != Some(NOT_OLDER_THAN) {
        errors.push(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if asked.is_some() && !initial {
        errors.push(forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
    }
    if let Some(other) = asked.filter(|asked| *asked != NOT_OLDER_THAN) {
        errors.push(FieldError::not_supported(MATCH, &json!(other), &[NOT_OLDER_THAN]));
    }
    errors
}

fn forbidden(detail: &str) -> FieldError {
    FieldError::forbidden(MATCH, detail)
}

/// Whether a list is of exactly the revision in the request: also a page without a match, from a revision other than 0.
pub(super) fn is_exact(call: &Call, revision: u64) -> bool {
    match call.parameter(MATCH) {
        Some(asked) => asked == EXACT,
        None => revision > 0 && call.parameter("limit").is_some_and(|limit| limit != "0"),
    }
}

/// The size of a page; `None` for all objects.
pub(super) fn limit(call: &Call) -> Result<Option<usize>, Status> {
    let Some(text) = call.parameter("limit") else { return Ok(None) };
    let invalid = || Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
    let limit: i64 = text.parse().map_err(|_| invalid())?;
    Ok(usize::try_from(limit).ok().filter(|limit| *limit > 0))
}

/// The `resourceVersion` of a request. The error is its text, which a list and a watch return with different codes.
pub(super) fn revision(call: &Call) -> Result<Option<u64>, String> {
    let Some(text) = call.parameter("resourceVersion") else { return Ok(None) };
    let invalid =
        || format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
    text.parse().map(Some).map_err(|_| invalid())
}

/// The same for a read that is no watch.
pub(super) fn revision_to_read(call: &Call) -> Result<Option<u64>, Status> {
    revision(call).map_err(|text| Status::bad_request(format!("invalid resource version: {text}")))
}
