//! What happens at random: the rates of a scenario file.

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
    pub calls: Rates,
}
