//! ResourceQuotas: what is used of them.

use super::Controller;
use crate::server::{ApiServer, Status};
use jiff::Timestamp;

/// Updates the status of ResourceQuotas. Quotas can count objects of every resource, so any change may concern them.
#[derive(Debug, Default)]
pub struct QuotaController {
    revision: u64,
}

impl Controller for QuotaController {
    fn step(&mut self, api: &ApiServer, _: Timestamp) -> Result<(), Status> {
        let revision = api.revision();
        if std::mem::replace(&mut self.revision, revision) == revision { Ok(()) } else { api.refresh_quotas() }
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        None
    }
}
