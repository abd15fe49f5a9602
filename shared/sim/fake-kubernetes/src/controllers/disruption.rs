//! PodDisruptionBudgets: how many disruptions they allow now.

use super::Controller;
use super::feed::Feed;
use crate::server::resource::{DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, Resource, STATEFUL_SETS};
use crate::server::{ApiServer, Status};
use jiff::Timestamp;

const WATCHED: &[Resource] = &[POD_DISRUPTION_BUDGETS, PODS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS];

/// Updates the status of PodDisruptionBudgets.
#[derive(Debug)]
pub struct DisruptionController {
    feed: Feed,
}

impl Default for DisruptionController {
    fn default() -> Self {
        Self { feed: Feed::new(WATCHED) }
    }
}

impl Controller for DisruptionController {
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        if self.feed.look(api, now)? { api.refresh_disruption_budgets() } else { Ok(()) }
    }

    fn next_wakeup(&self) -> Option<Timestamp> {
        self.feed.due()
    }
}
