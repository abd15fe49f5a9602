//! Whether a controller has work: changes of the resources that it watches, and due times.

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
        self.look_for(api, now, |_| true)
    }

    /// The same; of the changes to its resources, only those that matter count.
    pub(super) fn look_for(
        &mut self,
        api: &ApiServer,
        now: Timestamp,
        matters: impl Fn(&Change) -> bool,
    ) -> Result<bool, Status> {
        let current = api.revision();
        let changed = match self.revision {
            Some(seen) if seen == current => false,
            Some(seen) => match api.watch_since(None, seen) {
                Ok(changes) => {
                    changes.iter().any(|change| self.resources.contains(&change.resource) && matters(change))
                }
                // The history does not contain the revision any more.
                Err(expired) if expired.code == 410 => true,
                Err(error) => return Err(error),
            },
            None => true,
        };
        self.revision = Some(current);
        let due = self.due.is_some_and(|due| due <= now);
        if changed || due {
            self.due = None;
        }
        Ok(changed || due)
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
