//! Lists by page and watches by line.
//!
//! Every object of a response is decoded separately, so that a faulty object does not affect others, and is dropped with its
//! page.

use crate::connection::Connection;
use crate::error::{chain, from_kube};
use futures::AsyncBufReadExt as _;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Request;
use kube::core::Status;
use kube::core::params::{ListParams, WatchParams};
use nodeless_cluster::CallError;
use nodeless_ports::ErrorKind;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The number of objects in a page, as in client-go.
const PAGE: u32 = 500;

/// The metadata that is read before an object is decoded: its identity and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Identity {
    /// The namespace; empty for cluster-scoped objects.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// The version.
    pub(crate) resource_version: String,
}

#[derive(Deserialize)]
struct Identified {
    #[serde(default)]
    metadata: Identity,
}

/// The identity of an object.
pub(crate) fn identity(object: &RawValue) -> Identity {
    serde_json::from_str::<Identified>(object.get()).map(|identified| identified.metadata).unwrap_or_default()
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMeta,
    /// `null` when there are none.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
}

/// Lists the objects of a path, page by page, and returns the resourceVersion of the list, from which a watch resumes.
///
/// # Errors
/// When a page cannot be read. The objects that `each` received before are then not the complete list.
pub(crate) async fn list(
    connection: &Connection,
    operation: &str,
    path: &str,
    params: &ListParams,
    mut each: impl FnMut(&RawValue) + Send,
) -> Result<String, CallError> {
    let mut params = params.clone().limit(PAGE);
    loop {
        let text =
            connection.read(operation, request(operation, kube::core::Request::new(path).list(&params))?).await?;
        let page: Page<'_> = crate::api::borrowed(operation, &text)?;
        page.items.iter().flatten().for_each(|item| each(item));
        match page.metadata.token.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(page.metadata.resource_version),
        }
    }
}

/// The current resourceVersion of a path: that of a list of one object without a resourceVersion, which is a consistent read.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn current_version(connection: &Connection, operation: &str, path: &str) -> Result<String, CallError> {
    let params = ListParams::default().limit(1);
    let text = connection.read(operation, request(operation, kube::core::Request::new(path).list(&params))?).await?;
    let page: Page<'_> = crate::api::borrowed(operation, &text)?;
    Ok(page.metadata.resource_version)
}

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum Change {
    /// The object was added or changed.
    Present(Box<RawValue>),
    /// The object was deleted, or the field selector no longer matches it.
    Absent(Box<RawValue>),
    /// A bookmark: there is no change up to this version.
    Bookmark(Box<RawValue>),
}

/// Why a watch cannot continue.
#[derive(Debug)]
pub(crate) enum WatchError {
    /// The API server no longer has the changes since that version. List again.
    Expired,
    /// The call failed.
    Call(CallError),
}

/// A stream of changes. It ends when the API server closes it.
pub(crate) type Changes = BoxStream<'static, Result<Change, WatchError>>;

/// Watches the objects of a path from a version on, for at most this number of seconds.
pub(crate) async fn watch(
    connection: &Connection,
    operation: &str,
    path: &str,
    fields: Option<&str>,
    version: &str,
    seconds: u32,
) -> Result<Changes, WatchError> {
    let mut params = WatchParams::default().timeout(seconds);
    params.field_selector = fields.map(str::to_owned);
    let request =
        request(operation, kube::core::Request::new(path).watch(&params, version)).map_err(WatchError::Call)?;
    let stream = connection.stream(operation, request).await.map_err(expired)?;
    let operation = operation.to_owned();
    Ok(stream.lines().filter_map(move |line| std::future::ready(read_line(&operation, line))).boxed())
}

fn read_line(operation: &str, line: std::io::Result<String>) -> Option<Result<Change, WatchError>> {
    match line {
        Ok(line) if line.is_empty() => None,
        Ok(line) => Some(parse(operation, &line)),
        // The connection was interrupted: the changes up to here are valid, and the next watch resumes after them.
        Err(error) => Some(Err(WatchError::Call(CallError::other(
            ErrorKind::Unavailable,
            operation,
            format!("the watch was interrupted: {}", chain(&error)),
        )))),
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn parse(operation: &str, line: &str) -> Result<Change, WatchError> {
    let line: Line<'_> = crate::api::borrowed(operation, line).map_err(WatchError::Call)?;
    let object = line.object.to_owned();
    match line.kind {
        "ADDED" | "MODIFIED" => Ok(Change::Present(object)),
        "DELETED" => Ok(Change::Absent(object)),
        "BOOKMARK" => Ok(Change::Bookmark(object)),
        "ERROR" => {
            let status: Status = crate::api::decode(operation, object.get()).map_err(WatchError::Call)?;
            Err(expired(from_kube(operation, kube::Error::Api(status.boxed()))))
        }
        other => Err(WatchError::Call(CallError::other(
            ErrorKind::Unavailable,
            operation,
            format!("a watch event of the unknown type {other}"),
        ))),
    }
}

fn expired(failed: CallError) -> WatchError {
    if failed.is(410) { WatchError::Expired } else { WatchError::Call(failed) }
}

fn request(
    operation: &str,
    built: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Request<Vec<u8>>, CallError> {
    built.map_err(|error| CallError::other(ErrorKind::Invalid, operation, chain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_event_is_a_change_a_bookmark_or_an_error() {
        let object = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"spec":null}"#;
        for (kind, expected) in
            [("ADDED", "Present"), ("MODIFIED", "Present"), ("DELETED", "Absent"), ("BOOKMARK", "Bookmark")]
        {
            let change = parse("watch", &format!(r#"{{"type":"{kind}","object":{object}}}"#)).unwrap();
            assert!(format!("{change:?}").starts_with(expected), "{kind}: {change:?}");
        }
        let raw = RawValue::from_string(object.to_owned()).unwrap();
        let expected = Identity { namespace: "n".into(), name: "a".into(), resource_version: "7".into() };
        assert_eq!(identity(&raw), expected);
    }

    #[test]
    fn an_expired_version_differs_from_other_errors() {
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}}"#;
        assert!(matches!(parse("watch", gone), Err(WatchError::Expired)));
        let broken = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":500,"message":"etcd"}}"#;
        assert!(matches!(parse("watch", broken), Err(WatchError::Call(failed)) if failed.error.message == "etcd"));
        assert!(matches!(parse("watch", "{"), Err(WatchError::Call(_))));
    }
}
