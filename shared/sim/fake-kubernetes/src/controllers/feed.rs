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

/// What a controller has to process.
#[derive(Debug)]
pub(super) enum Work {
    /// Nothing changed, and nothing is due.
    Nothing,
    /// These changes; none if something is due without any.
    Changes(Vec<Change>),
    /// All objects, because the changes are not known.
    Everything,
}

impl Feed {
    /// A feed of these resources, in their storage versions.
    pub(super) fn new(resources: &'static [Resource]) -> Self {
        Self { resources, revision: None, due: None }
    }

    /// Whether something changed since the last run, or is due. Everything up to now counts as processed afterwards, so list only
    /// after this call.
    pub(super) fn look(&mut self, api: &ApiServer, now: Timestamp) -> Result<bool, Status> {
        Ok(!matches!(self.work(api, now)?, Work::Nothing))
    }

    /// What changed since the last run. Everything up to now counts as processed afterwards, so read only after this call.
    pub(super) fn work(&mut self, api: &ApiServer, now: Timestamp) -> Result<Work, Status> {
        let work = match self.changes(api)? {
            None => Work::Everything,
            Some(changes) if changes.is_empty() && !self.is_due(now) => return Ok(Work::Nothing),
            Some(changes) => Work::Changes(changes),
        };
        self.due = None;
        Ok(work)
    }

    /// The changes to the feed's resources since the last call. `None` if they are unknown: at the first call, or if the history of the API
    /// server does not contain all of them. The changes count as processed, so list only after this call.
    pub(super) fn changes(&mut self, api: &ApiServer) -> Result<Option<Vec<Change>>, Status> {
        let current = api.revision();
        let (current, changes) = match self.revision {
            Some(seen) if seen == current => (current, Some(Vec::new())),
            Some(seen) => match api.changes_of(self.resources, seen) {
                Ok((current, changes)) => (current, Some(changes)),
                Err(expired) if expired.code == 410 => (current, None),
                Err(error) => return Err(error),
            },
            None => (current, None),
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
