//! Detects whether a controller has work: changes of the resources that it watches, and due times.

use crate::server::{ApiServer, Change, Resource, Status};
use jiff::Timestamp;

/// The changes to some resources since a controller last ran, and a time at which it has to run anyway.
#[derive(Debug)]
pub(super) struct Feed {
    resources: &'static [Resource],
    /// `None` before the first run.
    revision: Option<u64>,
    due: Option<Timestamp>,
}

impl Feed {
    /// A feed of these resources, in their storage versions.
    pub(super) fn new(resources: &'static [Resource]) -> Self {
        Self { resources, revision: None, due: None }
    }

    /// Whether something changed since the last run, or is due. Everything up to now counts as processed afterwards, so list only
    /// after this call.
    pub(super) fn look(&mut self, api: &ApiServer, now: Timestamp) -> Result<bool, Status> {
        let changed = self.changes(api)?.is_none_or(|changes| !changes.is_empty());
        let due = self.is_due(now);
        if changed || due {
            self.due = None;
        }
        Ok(changed || due)
    }

    /// The changes to the feed's resources since the last call. `None` if they are unknown: at the first call, or if the history of the API
    /// server does not contain all of them. The changes count as processed, so list only after this call.
    pub(super) fn changes(&mut self, api: &ApiServer) -> Result<Option<Vec<Change>>, Status> {
        let current = api.revision();
        let changes = match self.revision {
            Some(seen) if seen == current => Some(Vec::new()),
            Some(seen) => match api.watch_since(None, seen) {
                Ok(mut changes) => {
                    changes.retain(|change| self.resources.contains(&change.resource));
                    Some(changes)
                }
                Err(expired) if expired.code == 410 => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        self.revision = Some(current);
        Ok(changes)
    }

    /// Whether a run is due without any change.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Schedules the next run at this time, whatever was scheduled before.
    pub(super) fn set_due(&mut self, at: Option<Timestamp>) {
        self.due = at;
    }

    /// Schedules a run at this time at the latest.
    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When the next run is due without any change.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due
    }
}
