//! Follows the objects of a kind: a list, then the changes as they happen, for callers that decode objects themselves.

use crate::connection::Connection;
use crate::export::explain_missing;
use crate::store::next;
use crate::watch::{self, Change, Changes, WatchError, identity};
use kube::core::params::ListParams;
use nodeless_cluster::CallError;
use nodeless_ports::{ErrorKind, PortError};
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long a watch lasts before it is resumed; less than the shortest limit of API servers.
const WATCH_SECONDS: u32 = 240;
/// A watch that neither ends nor sends anything for this time is interrupted: the connection is lost.
const SILENCE: Duration = Duration::from_secs(300);
/// The wait before a watch is resumed that the API server closed.
const REOPEN: Duration = Duration::from_millis(200);

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed<'k> {
    /// The name of the kind, for errors.
    pub kind: &'k str,
    /// The path of the objects.
    pub path: &'k str,
    /// The field selector, if any.
    pub fields: Option<&'k str>,
}

/// An object as the API server returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'o> {
    /// The namespace; empty if the object has none.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The JSON.
    pub json: &'o str,
}

/// An event while objects are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<'o> {
    /// A list begins.
    ListBegins,
    /// The list has this object.
    Listed(Item<'o>),
    /// The list is complete: other objects do not exist.
    ListEnds,
    /// The object was created or changed.
    Present(Item<'o>),
    /// The object was deleted, or the field selector no longer matches it.
    Absent(Item<'o>),
    /// The API server answered without a change: the watch was opened, or sent a bookmark.
    Current,
}

/// Lists the objects of a kind, and then watches them, until that fails. When the API server no longer has the changes since the
/// last one, the objects are listed again.
///
/// Returns why the watch ended. [`NotFound`](ErrorKind::NotFound) means that the API server does not serve the kind.
pub async fn follow(
    connection: &Connection,
    followed: Followed<'_>,
    mut each: impl FnMut(Seen<'_>) + Send,
) -> PortError {
    loop {
        let mut version = match listed(connection, followed, &mut each).await {
            Ok(version) => version,
            // The continue token expired during the list. A second list starts at the current resourceVersion.
            Err(failed) if failed.is(410) => continue,
            Err(failed) => return explain_missing(failed, followed.kind).into(),
        };
        match watched(connection, followed, &mut version, &mut each).await {
            WatchError::Expired => {}
            WatchError::Call(failed) => return failed.into(),
        }
    }
}

async fn listed(
    connection: &Connection,
    followed: Followed<'_>,
    each: &mut (impl FnMut(Seen<'_>) + Send),
) -> Result<String, CallError> {
    let params = ListParams { field_selector: followed.fields.map(str::to_owned), ..ListParams::default() };
    let operation = format!("Kubernetes list {}", followed.kind);
    each(Seen::ListBegins);
    let version =
        watch::list(connection, &operation, followed.path, &params, |object| each(Seen::Listed(item(object)))).await?;
    each(Seen::ListEnds);
    Ok(version)
}

/// Watches until that fails. `version` is the resourceVersion of the last change.
async fn watched(
    connection: &Connection,
    followed: Followed<'_>,
    version: &mut String,
    each: &mut (impl FnMut(Seen<'_>) + Send),
) -> WatchError {
    let operation = format!("Kubernetes watch {}", followed.kind);
    loop {
        let opened = watch::watch(connection, &operation, followed.path, followed.fields, version, WATCH_SECONDS).await;
        let mut changes = match opened {
            Ok(changes) => changes,
            Err(error) => return error,
        };
        each(Seen::Current);
        if let Err(error) = until_closed(&mut changes, &operation, version, each).await {
            return error;
        }
        sleep(REOPEN).await;
    }
}

async fn until_closed(
    changes: &mut Changes,
    operation: &str,
    version: &mut String,
    each: &mut (impl FnMut(Seen<'_>) + Send),
) -> Result<(), WatchError> {
    loop {
        let silent =
            |_| WatchError::Call(CallError::other(ErrorKind::Unavailable, operation, "the connection is silent"));
        let Some(change) = timeout(SILENCE, next(changes)).await.map_err(silent)? else { return Ok(()) };
        let change = change?;
        let (Change::Present(object) | Change::Absent(object) | Change::Bookmark(object)) = &change;
        let of_change = identity(object).resource_version;
        if !of_change.is_empty() {
            *version = of_change;
        }
        match &change {
            Change::Present(object) => each(Seen::Present(item(object))),
            Change::Absent(object) => each(Seen::Absent(item(object))),
            Change::Bookmark(_) => each(Seen::Current),
        }
    }
}

fn item(object: &RawValue) -> Item<'_> {
    let identity = identity(object);
    Item { namespace: identity.namespace, name: identity.name, json: object.get() }
}
