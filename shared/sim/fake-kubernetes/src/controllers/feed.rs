//! Whether a controller has anything to do: changes of the resources that it watches, and times that are due.

use crate::server::{ApiServer, Resource, Status};
use jiff::Timestamp;

/// The changes to some resources since a controller last looked, and a time at which it has to look anyway.
#[derive(Debug)]
pub(super) struct Feed {
    resources: &'static [Resource],
    /// `None` before the first look.
    revision: Option<u64>,
    due: Option<Timestamp>,
}

impl Feed {
    /// A feed of these resources, in their storage versions.
    pub(super) fn new(resources: &'static [Resource]) -> Self {
        Self { resources, revision: None, due: None }
    }

    /// Whether something changed since the last look, or is due. Everything up to now counts as seen afterwards, so
    /// list only after this.
    pub(super) fn look(&mut self, api: &ApiServer, now: Timestamp) -> Result<bool, Status> {
        let current = api.revision();
        let changed = match self.revision {
            Some(seen) if seen == current => false,
            Some(seen) => match api.watch_since(None, seen) {
                Ok(changes) => changes.iter().any(|change| self.resources.contains(&change.resource)),
                // The history does not reach back so far.
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

    /// Asks to look at this time at the latest.
    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// When the next look is due without any change.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due
    }
}
