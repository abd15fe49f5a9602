//! What happens at random: the rates of a scenario file.

use super::durations;
use jiff::SignedDuration;
use nodeless_world::fault_injection::Rates;
use serde::Deserialize;

/// Random faults. All rates are 0 unless given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FaultRates {
    /// Spot interruptions per hour.
    pub spot_interruptions_per_hour: f64,
    /// Rebalance recommendations per hour.
    pub rebalances_per_hour: f64,
    /// Shortages of offerings per hour: a type, a zone's spot capacity, or a type in a zone.
    pub shortages_per_hour: f64,
    /// Outages of an API per hour, for some minutes each.
    pub outages_per_hour: f64,
    /// Times per hour in which a service answers slowly, for some minutes each.
    pub slow_calls_per_hour: f64,
    /// Denials of an EC2 API per hour, for some minutes each.
    pub denials_per_hour: f64,
    /// Low quotas of vCPUs per hour, for some minutes each.
    pub quotas_per_hour: f64,
    /// Failures of a zone per hour, for some minutes each.
    pub zone_failures_per_hour: f64,
    /// Machines per hour that stop without warning.
    pub machine_failures_per_hour: f64,
    /// Machines per hour that stop responding while EC2 still runs them.
    pub silent_machines_per_hour: f64,
    /// Machines per hour that begin to fail their EC2 status check.
    pub impaired_machines_per_hour: f64,
    /// Instances per hour from which a user removes tags.
    pub untagged_machines_per_hour: f64,
    /// Launches per hour whose machine does not become a node.
    pub bad_machines_per_hour: f64,
    /// NodeClaims per hour that a user deletes.
    pub deleted_claims_per_hour: f64,
    /// Nodes per hour that a user deletes.
    pub deleted_nodes_per_hour: f64,
    /// Edits per hour that make a NodePool or an EC2NodeClass unusable, for some minutes each.
    pub misconfigurations_per_hour: f64,
    /// NodePools per hour that a user deletes, and creates again after some minutes.
    pub recreated_node_pools_per_hour: f64,
    /// Pods per hour whose readiness probes fail, for some minutes each.
    pub unready_pods_per_hour: f64,
    /// Pods per hour that do not stop, for some minutes each.
    pub hanging_pods_per_hour: f64,
    /// Times per hour in which volumes take minutes to detach, for some minutes each.
    pub slow_detachments_per_hour: f64,
    /// Changes of all spot prices per hour.
    pub spot_price_changes_per_hour: f64,
    /// Changes of all on-demand prices per day.
    pub on_demand_price_changes_per_day: f64,
    /// New images per day.
    pub new_images_per_day: f64,
    /// Faults of calls and messages.
    pub calls: CallRates,
}

/// The probability of each fault for one call or one message, from 0 to 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each is documented where it is used, in Rates")]
pub struct CallRates {
    pub killed_before: f64,
    pub killed_after: f64,
    pub failed: f64,
    pub throttled: f64,
    pub answer_lost: f64,
    pub refused: f64,
    pub slow: f64,
    #[serde(deserialize_with = "durations::one")]
    pub slowest: SignedDuration,
    pub stale: f64,
    #[serde(deserialize_with = "durations::one")]
    pub stalest: SignedDuration,
    pub lost: f64,
    pub late: f64,
    #[serde(deserialize_with = "durations::one")]
    pub latest: SignedDuration,
    pub doubled: f64,
    #[serde(deserialize_with = "durations::one")]
    pub skew: SignedDuration,
}

impl Default for CallRates {
    fn default() -> Self {
        Self {
            killed_before: 0.0,
            killed_after: 0.0,
            failed: 0.0,
            throttled: 0.0,
            answer_lost: 0.0,
            refused: 0.0,
            slow: 0.0,
            slowest: SignedDuration::from_secs(2),
            stale: 0.0,
            stalest: SignedDuration::from_secs(10),
            lost: 0.0,
            late: 0.0,
            latest: SignedDuration::from_secs(30),
            doubled: 0.0,
            skew: SignedDuration::ZERO,
        }
    }
}

impl CallRates {
    pub(crate) fn rates(&self) -> Rates {
        let unsigned = |duration: SignedDuration| std::time::Duration::try_from(duration).unwrap_or_default();
        Rates {
            killed_before: self.killed_before,
            killed_after: self.killed_after,
            failed: self.failed,
            throttled: self.throttled,
            answer_lost: self.answer_lost,
            refused: self.refused,
            slow: self.slow,
            slowest: unsigned(self.slowest),
            stale: self.stale,
            stalest: unsigned(self.stalest),
            lost: self.lost,
            late: self.late,
            latest: unsigned(self.latest),
            doubled: self.doubled,
            skew: unsigned(self.skew),
        }
    }
}
