//! Get and list.

use std::sync::Arc;

use axum::response::Response;
use base64::Engine as _;
use serde_json::{Value, json};

use super::request::{Call, Target};
use super::respond::Form;
use super::{list_options, respond, show};
use crate::server::api::ApiServer;
use crate::server::field_selector::FieldSelector;
use crate::server::path::text;
use crate::server::status::Status;
use crate::server::store::{ObjectKey, Store};
use crate::server::{conversion, scale};

pub(super) fn get(server: &ApiServer, call: &Call, target: &Target) -> Result<Response, Status> {
    check_not_ahead(&server.store(), list_options::revision_to_read(call)?.unwrap_or_default())?;
    let object = server.get(&target.definition.resource, target.namespace(), target.name())?;
    match target.subresource.as_deref() {
        None | Some("status" | "resize") => Ok(show(server, call, target, 200, &object)),
        Some("scale") => Ok(respond::json(200, &scale::read(&target.definition, &object)?)),
        Some("log") => {
            let text = format!("pod {:?} has no logs: its containers are simulated", target.name());
            Err(Status::bad_request(text))
        }
        Some(other @ ("exec" | "attach" | "portforward")) => {
            let text = format!("{other} is not possible: the containers of pods are simulated");
            Err(Status::bad_request(text))
        }
        Some(_) => Err(Status::method_not_allowed()),
    }
}

/// The position from which a paged list continues: the revision, or `None` for the latest one, and the last object.
struct Continue {
    revision: Option<u64>,
    after: ObjectKey,
    /// The number of objects after it, if that is known.
    remaining: Option<usize>,
}

/// The revision in a token that continues at the latest one.
const LATEST: i64 = -1;

const ENGINE: base64::engine::GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;

impl Continue {
    fn encode(&self) -> String {
        let revision = self.revision.map_or_else(|| json!(LATEST), |revision| json!(revision));
        let mut value = json!({"v": "meta.k8s.io/v1", "rv": revision, "ns": self.after.0, "name": self.after.1});
        if let Some(remaining) = self.remaining {
            value["remaining"] = json!(remaining);
        }
        ENGINE.encode(value.to_string())
    }

    fn decode(token: &str) -> Result<Self, Status> {
        let invalid = || Status::bad_request("continue key is not valid");
        let bytes = ENGINE.decode(token).map_err(|_| invalid())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        let text = |field: &str| value[field].as_str().map(str::to_owned).ok_or_else(invalid);
        let revision = match value["rv"].as_i64() {
            Some(LATEST) => None,
            _ => Some(value["rv"].as_u64().ok_or_else(invalid)?),
        };
        let remaining = value["remaining"].as_u64().and_then(|count| usize::try_from(count).ok());
        Ok(Self { revision, after: (text("ns")?, text("name")?), remaining })
    }
}

/// The revision of a list: that of the continue token, an exact one in the request, or the latest.
fn revision(call: &Call, store: &Store, token: Option<&Continue>) -> Result<u64, Status> {
    let asked = list_options::revision_to_read(call)?;
    if let Some(token) = token {
        if asked.is_some_and(|asked| asked != 0) {
            let text = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(text));
        }
        return Ok(token.revision.unwrap_or(store.revision));
    }
    let asked = asked.unwrap_or_default();
    if list_options::is_exact(call, asked) {
        return Ok(asked);
    }
    check_not_ahead(store, asked)?;
    Ok(store.revision)
}

/// A revision from the future cannot be served: the client was connected to another cluster before.
pub(super) fn check_not_ahead(store: &Store, asked: u64) -> Result<(), Status> {
    if asked <= store.revision {
        return Ok(());
    }
    let text = format!("Timeout: Too large resource version: {asked}, current: {}", store.revision);
    Err(Status::new(504, "Timeout", text)
        .caused_by("ResourceVersionTooLarge", "Too large resource version")
        .retry_after(1))
}

/// The error of a token whose revision is forgotten, with a token to read the rest at the latest revision.
fn too_old(token: &Continue) -> Status {
    let text = "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
        the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
        Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted \
        between the time the first chunk was returned and now may show up in the list.";
    Status::expired(text)
        .continued_by(Continue { revision: None, after: token.after.clone(), remaining: None }.encode())
}

pub(super) fn list(server: &ApiServer, call: &Call, target: &Target) -> Result<Response, Status> {
    list_options::check(call, false)?;
    let (objects, mut metadata) = page(server, call, target)?;
    // The real server has no types for the lists of definitions, and therefore no empty field to leave out.
    if target.definition.custom.is_some() && call.form() == Form::Full && metadata.get("continue").is_none() {
        metadata["continue"] = json!("");
    }
    Ok(respond::list(&target.definition, call.form(), call.include(), &objects, &metadata, server.ages()))
}

/// The objects of one page, and the metadata of the list.
fn page(server: &ApiServer, call: &Call, target: &Target) -> Result<(Vec<Arc<Value>>, Value), Status> {
    let definition = &target.definition;
    let options = call.list_options(target)?;
    let fields = FieldSelector::parse(definition, &options.fields)?;
    let token = call.parameter("continue").map(Continue::decode).transpose()?;
    // The cache of the real server, from which revision 0 is read, has no pages.
    let is_cached = token.is_none() && call.parameter("resourceVersion") == Some("0");
    let limit = list_options::limit(call)?.filter(|_| !is_cached);
    let storage = definition.resource.storage_key();
    let store = server.store();
    let revision = revision(call, &store, token.as_ref())?;
    check_not_ahead(&store, revision)?;
    let after = token.as_ref().map(|token| &token.after);
    let everything: Box<dyn Iterator<Item = &Arc<Value>> + '_> = if revision == store.revision && after.is_none() {
        Box::new(store.candidates(&storage, options.namespace.as_deref(), &fields).map(|(_, object)| object))
    } else {
        let forgotten = || Status::expired("The resourceVersion for the provided list is too old.");
        let older = store.at(&storage, revision, after);
        Box::new(older.map_err(|_| token.as_ref().map_or_else(forgotten, too_old))?)
    };
    let is_all = options.labels.is_empty() && fields.is_empty();
    let mut matching = everything
        .filter(|object| {
            options.namespace.as_ref().is_none_or(|requested| requested == text(object, "/metadata/namespace"))
        })
        .filter(|object| is_all || (options.labels.matches(object) && fields.matches(object)));
    let page: Vec<Arc<Value>> = matching
        .by_ref()
        .take(limit.unwrap_or(usize::MAX))
        .map(|object| conversion::to_version(definition, object))
        .collect();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    let further = matching.next().is_some();
    if let (true, Some(last)) = (further, page.last()) {
        let after = (text(last, "/metadata/namespace").to_owned(), text(last, "/metadata/name").to_owned());
        // As the API server, which does not count what a selector excludes. Counting takes longer than the page itself.
        let before = match &token {
            Some(token) => token.remaining,
            None => (revision == store.revision && options.namespace.is_none()).then(|| store.count(&storage)),
        };
        let remaining =
            is_all.then(|| before.map_or_else(|| 1 + matching.count(), |before| before.saturating_sub(page.len())));
        metadata["continue"] = json!(Continue { revision: Some(revision), after, remaining }.encode());
        if let Some(remaining) = remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
    }
    Ok((page, metadata))
}
