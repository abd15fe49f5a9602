//! The input of the stages of a plan.

use crate::pools::EvaluatedPool;
use crate::settings::Mechanism;
use crate::snapshot::Snapshot;
use crate::snapshot::command_records::Commands;
use nodeless_disruption::AssumedBindings;
use nodeless_model::NodeClaim;

/// The snapshot, its offerings, and the claims and commands after the preceding stages.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) evaluated: &'a [EvaluatedPool],
    pub(super) claims: &'a [NodeClaim],
    pub(super) commands: &'a Commands,
}

impl<'a> Facts<'a> {
    /// The NodePool with this name.
    pub(super) fn pool(&self, name: &str) -> Option<&'a EvaluatedPool> {
        self.evaluated.iter().find(|one| one.pool.name == name)
    }

    /// How decisions about disruption are made.
    pub(super) fn disruption_options(&self) -> nodeless_disruption::Options {
        let settings = &self.snapshot.settings;
        let without_prediction = settings.without == Some(Mechanism::Prediction);
        nodeless_disruption::Options {
            hash_version: nodeless_api::hash::VERSION.to_owned(),
            scheduling: settings.scheduling,
            spot_to_spot: settings.gates.spot_to_spot_consolidation,
            bindings: if without_prediction { AssumedBindings::AsPlanned } else { AssumedBindings::Predicted },
            node_repair: settings.gates.node_repair,
            reboot_for_repair: settings.gates.reboot_for_repair,
            ..nodeless_disruption::Options::default()
        }
    }
}
