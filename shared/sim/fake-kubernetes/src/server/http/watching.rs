//! Watches: a stream of changes, with bookmarks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::list_options;
use super::reads::check_not_ahead;
use super::request::{Call, Target};
use super::respond::{self, Form};
use crate::server::api::{ApiServer, ListOptions};
use crate::server::definition::Definition;
use crate::server::field_selector::FieldSelector;
use crate::server::status::Status;
use crate::server::store::{Change, ChangeKind};
use crate::server::{conversion, table};

/// The interval of bookmarks, for a client that allows them, if there is no change.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(10);
/// The time from the last bookmark to the end of a watch, as from the real server.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// The bytes of several changes that are sent in one piece.
const SENT_AT_ONCE: usize = 1 << 16;
/// The duration of a watch without a timeout; the real server takes half an hour to an hour.
const LONGEST: Duration = Duration::from_secs(3600);

struct Watch {
    server: ApiServer,
    definition: Arc<Definition>,
    options: ListOptions,
    fields: FieldSelector,
    form: Form,
    include: String,
    bookmarks: bool,
    revision: u64,
    revisions: tokio::sync::watch::Receiver<u64>,
    held: tokio::sync::watch::Receiver<bool>,
    deadline: Instant,
    next_bookmark: Instant,
    pending: VecDeque<Bytes>,
    columns_sent: bool,
    finished: bool,
}

pub(super) fn watch(server: &ApiServer, call: &Call, target: &Target) -> Result<Response, Status> {
    list_options::check(call, true)?;
    let options = call.list_options(target)?;
    let fields = FieldSelector::parse(&target.definition, &options.fields)?;
    let from = list_options::revision(call).map_err(|text| Status::new(500, "", text))?;
    let seconds = call.number("timeoutSeconds")?;
    let now = Instant::now();
    let deadline = now + seconds.map_or(LONGEST, Duration::from_secs);
    let mut watch = Watch {
        server: server.clone(),
        definition: target.definition.clone(),
        options,
        fields,
        form: call.form(),
        include: call.include().to_owned(),
        bookmarks: call.flag("allowWatchBookmarks"),
        revision: from.unwrap_or_default(),
        // Subscribed before the state is read, so that no change is missed.
        revisions: server.subscribe(),
        held: server.watches_held(),
        deadline,
        next_bookmark: next_bookmark(now, deadline),
        pending: VecDeque::new(),
        columns_sent: false,
        finished: false,
    };
    if initial_events(call, from) {
        let ahead = check_not_ahead(&server.store(), watch.revision).err();
        match ahead {
            Some(error) => watch.fail(&error),
            None => watch.start(call.flag("sendInitialEvents")),
        }
    }
    let stream = futures::stream::unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        Some((Ok::<_, std::convert::Infallible>(next), watch))
    });
    Ok(respond::stream(Body::from_stream(stream)))
}

/// When a watch gets its next bookmark: after the interval, or before its end.
fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(now + BOOKMARK_INTERVAL, |last| last.min(now + BOOKMARK_INTERVAL))
}

/// Whether the watch begins with the existing objects.
fn initial_events(call: &Call, from: Option<u64>) -> bool {
    match call.parameter("sendInitialEvents") {
        None => from.unwrap_or_default() == 0,
        Some(value) => value == "true" || value == "1",
    }
}

/// The last state of an object that exists but is no longer selected, with the revision of the change.
fn last_selected(change: &Change) -> Arc<Value> {
    let mut last = change.previous.as_deref().cloned().unwrap_or_default();
    last["metadata"]["resourceVersion"] = json!(change.revision.to_string());
    Arc::new(last)
}

/// An event of a watch with this object in JSON.
fn written(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

impl Watch {
    /// Queues the existing objects, and the bookmark after them.
    fn start(&mut self, mark_end: bool) {
        let server = self.server.clone();
        let store = server.store();
        self.revision = store.revision;
        let storage = self.definition.resource.storage_key();
        let found: Vec<_> = store
            .candidates(&storage, self.options.namespace.as_deref(), &self.fields)
            .filter(|(_, object)| self.options.labels.matches(object) && self.fields.matches(object))
            .map(|(_, object)| object.clone())
            .collect();
        drop(store);
        for object in found {
            let line = self.line("ADDED", &object, None);
            self.pending.push_back(line);
        }
        if mark_end && self.bookmarks {
            let mark = self.bookmark(true);
            self.pending.push_back(mark);
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // The sender belongs to the server, which this watch keeps.
            let _ = self.held.wait_for(|held| !held).await;
            if let Some(line) = self.pending.pop_front() {
                return Some(self.with_further(line));
            }
            if self.finished {
                return None;
            }
            self.poll();
            if !self.pending.is_empty() {
                continue;
            }
            let wake = if self.bookmarks { self.deadline.min(self.next_bookmark) } else { self.deadline };
            tokio::select! {
                changed = self.revisions.changed() => self.finished |= changed.is_err(),
                () = tokio::time::sleep_until(wake) => {
                    let now = Instant::now();
                    self.finished = now >= self.deadline;
                    if self.bookmarks && now >= self.next_bookmark {
                        self.next_bookmark = next_bookmark(now, self.deadline);
                        let mark = self.bookmark(false);
                        self.pending.push_back(mark);
                    }
                }
            }
        }
    }

    /// A line with those that are pending after it, as many as are sent at once.
    fn with_further(&mut self, line: Bytes) -> Bytes {
        if self.pending.is_empty() {
            return line;
        }
        let mut lines = Vec::from(line);
        while let Some(next) = self.pending.pop_front_if(|next| lines.len() + next.len() <= SENT_AT_ONCE) {
            lines.extend_from_slice(&next);
        }
        lines.into()
    }

    /// Queues the changes since the last call.
    fn poll(&mut self) {
        self.revisions.mark_unchanged();
        let server = self.server.clone();
        let store = server.store();
        let storage = self.definition.resource.storage_key();
        let changes: Vec<Change> = match store.since(self.revision) {
            Ok(changes) => changes.filter(|it| it.resource.storage_key() == storage).cloned().collect(),
            Err(error) => {
                self.fail(&error);
                return;
            }
        };
        // A watch may be of a later revision, and then begins after it.
        self.revision = self.revision.max(store.revision);
        drop(store);
        for change in changes {
            let line = self.change(&change);
            self.pending.extend(line);
        }
    }

    /// Queues the error with which the watch ends: the response has begun, so it is an event.
    fn fail(&mut self, error: &Status) {
        let line = json!({"type": "ERROR", "object": error.to_value()});
        self.pending.push_back(Bytes::from(format!("{line}\n")));
        self.finished = true;
    }

    fn selects(&self, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str();
        self.options.namespace.as_deref().is_none_or(|requested| namespace == Some(requested))
            && self.options.labels.matches(object)
            && self.fields.matches(object)
    }

    /// A change in terms of this watch: an object may start or stop matching the selector.
    fn change(&mut self, change: &Change) -> Option<Bytes> {
        let before = change.previous.as_ref().is_some_and(|previous| self.selects(previous));
        let after = change.kind != ChangeKind::Deleted && self.selects(&change.object);
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.line("ADDED", &change.object, Some(change))),
            (true, true) => Some(self.line("MODIFIED", &change.object, Some(change))),
            (true, false) if change.kind == ChangeKind::Deleted => {
                Some(self.line("DELETED", &change.object, Some(change)))
            }
            (true, false) => Some(self.line("DELETED", &last_selected(change), None)),
        }
    }

    /// The line about an object: that of the change, or another state.
    fn line(&mut self, kind: &str, object: &Arc<Value>, change: Option<&Change>) -> Bytes {
        let stored = object;
        let object = conversion::to_version(&self.definition, object);
        let shown = match self.form {
            Form::Full => {
                let own = change.filter(|_| Arc::ptr_eq(&object, stored)).map(|change| change.encoded().clone());
                return written(kind, &own.unwrap_or_else(|| object.to_string().into()));
            }
            Form::Partial => table::partial(&object),
            Form::Table => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let ages = self.server.ages();
                table::table(&self.definition, &[object], &metadata, &self.include, columns, ages)
            }
        };
        written(kind, shown.to_string().as_bytes())
    }

    fn bookmark(&self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &self.definition.resource;
        let object = match self.form {
            Form::Full => json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata}),
            Form::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                "columnDefinitions": [], "rows": []}),
        };
        Bytes::from(format!("{}\n", json!({"type": "BOOKMARK", "object": object})))
    }
}
