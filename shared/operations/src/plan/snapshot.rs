//! The input of a plan: one value, read before the plan begins.

use super::PlanSettings;
use super::command_records::Commands;
use crate::unread::Unread;
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_disruption::spot_interruptions::RecentInterruptions;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{ClusterLimits, EndedNode, NodeClaim};
use nodeless_ports::capacity::{LaunchBudget, SpotInterruption, UnavailableOffering};
use nodeless_ports::cluster::ClusterView;
use nodeless_ports::costs::StoredCosts;
use nodeless_ports::plans::UnfinishedPlan;
use nodeless_ports::{ShiftedZone, StoredRecord};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The input of a plan. The same snapshot always results in the same plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The cluster's name.
    pub cluster_name: String,
    /// The time of the plan.
    pub now: Timestamp,
    /// How plans are made.
    pub settings: PlanSettings,
    /// The work budget of the plan.
    pub work: WorkBudget,
    /// The cluster.
    pub view: ClusterView,
    /// All claims.
    pub claims: Vec<NodeClaim>,
    /// The usage of each NodePool.
    pub usage: BTreeMap<String, PoolUsage>,
    /// The offerings that are unavailable.
    pub unavailable: Vec<UnavailableOffering>,
    /// The interruptions of spot instances that are remembered, or why they are unknown. Empty if no NodePool avoids them.
    #[serde(default = "no_interruptions")]
    pub interruptions: Result<Vec<SpotInterruption>, Unread>,
    /// How many launches of an offering may be in progress; `None` if unknown, in which case no launch waits.
    pub launch_budgets: Option<Vec<LaunchBudget>>,
    /// The zones that the cluster is shifted away from.
    pub shifted: Vec<ShiftedZone>,
    /// The results of the last launches of each NodePool, or why they are unknown.
    pub registrations: Result<Vec<StoredRecord>, Unread>,
    /// The memory that nodes reported, or why it is unknown.
    pub reported_memory: Result<StoredRecord, Unread>,
    /// The disruption commands in progress.
    pub commands: Commands,
    /// What voluntary disruption did within the last hour, or why it is unknown. `None` until it is read, which happens only if
    /// something is to be disrupted.
    pub churn: Option<Result<Vec<StoredRecord>, Unread>>,
    /// The nodes that the last decision did not evaluate, or why they are unknown.
    pub not_yet_evaluated: Result<BTreeSet<String>, Unread>,
    /// An earlier plan that did not finish.
    pub unfinished: Option<UnfinishedPlan>,
    /// Whether this plan records what nodes cost.
    #[serde(default)]
    pub costs_due: bool,
    /// What was recorded of them, or why it is unknown. `None` if it is read only when it is needed.
    #[serde(default)]
    pub costs: Option<Result<RecordedCosts, Unread>>,
    /// The catalog.
    #[serde(with = "stored_catalog")]
    pub catalog: Arc<Catalog>,
}

/// Snapshots that were saved by an earlier version have none.
const fn no_interruptions() -> Result<Vec<SpotInterruption>, Unread> {
    Ok(Vec::new())
}

/// What is recorded of the costs of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCosts {
    /// The open record.
    pub open: StoredCosts,
    /// The instances that have ended since, read after it.
    pub ended: Vec<EndedNode>,
}

impl Snapshot {
    /// How often spot offerings were interrupted lately.
    pub(super) fn recent_interruptions(&self, claims: &[NodeClaim]) -> RecentInterruptions {
        let interruptions = self.interruptions.as_deref().unwrap_or_default();
        RecentInterruptions::of(interruptions, claims, self.now)
    }

    /// The limits of the cluster.
    #[must_use]
    pub fn cluster_limits(&self) -> ClusterLimits {
        ClusterLimits::of(&self.view.annotations).0
    }

    /// An empty cluster at this time.
    #[must_use]
    pub fn bare(now: Timestamp, catalog: Arc<Catalog>) -> Self {
        Self {
            cluster_name: String::new(),
            now,
            settings: PlanSettings::default(),
            work: WorkBudget::default(),
            view: ClusterView::default(),
            claims: Vec::new(),
            usage: BTreeMap::new(),
            unavailable: Vec::new(),
            interruptions: no_interruptions(),
            launch_budgets: None,
            shifted: Vec::new(),
            registrations: Ok(Vec::new()),
            reported_memory: Ok(StoredRecord::default()),
            commands: Commands::default(),
            churn: None,
            not_yet_evaluated: Ok(BTreeSet::new()),
            unfinished: None,
            costs_due: false,
            costs: None,
            catalog,
        }
    }
}

/// The work budget of a plan as counts, so that a plan that is replayed from the same snapshot does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkBudget {
    /// For pending pods: [`nodeless_scheduling::Options::max_work`]. `None` means that no pod is left for a later plan.
    pub provisioning: Option<u64>,
    /// For one disruption decision: [`nodeless_disruption::Options::max_work`].
    pub disruption: u64,
}

impl Default for WorkBudget {
    /// For a planner without a deadline.
    fn default() -> Self {
        Self { provisioning: None, disruption: nodeless_disruption::Options::default().max_work }
    }
}

impl WorkBudget {
    /// The time in which the default work of a decision certainly completes on the smallest deployed planner.
    const DEFAULT_TAKES: Duration = Duration::from_secs(20);
    /// How much the scheduler does in a millisecond on the smallest deployed planner: a unit takes up to 50 ns there.
    const SCHEDULED_IN_A_MILLISECOND: u64 = 20_000;
    /// The time that is reserved for reading the cluster, for writes and for pods.
    const KEPT_BACK: Duration = Duration::from_secs(10);

    /// The work that fits in a time. It is computed before the plan begins.
    #[must_use]
    pub fn within(remaining: Duration) -> Self {
        let whole = Self::default();
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let usable = remaining.saturating_sub(Self::KEPT_BACK);
        let share = milliseconds(usable.min(Self::DEFAULT_TAKES));
        // Pods come first, so that a plan that is late still schedules some of them.
        let provisioning = milliseconds(usable).max(1_000).saturating_mul(Self::SCHEDULED_IN_A_MILLISECOND);
        Self {
            provisioning: Some(provisioning),
            disruption: whole.disruption.saturating_mul(share) / milliseconds(Self::DEFAULT_TAKES),
        }
    }
}

/// The catalog in its stored form, as base64: a tenth of its size as JSON.
mod stored_catalog {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use nodeless_catalog::Catalog;
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(catalog: &Arc<Catalog>, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = catalog.encode().map_err(S::Error::custom)?;
        STANDARD.encode(bytes).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Catalog>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        Catalog::decode(&bytes).map(Arc::new).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_time_is_less_optional_work_and_never_more_than_the_default() {
        let of = |seconds| WorkBudget::within(Duration::from_secs(seconds)).disruption;
        assert_eq!(of(900), WorkBudget::default().disruption);
        assert_eq!(of(30), WorkBudget::default().disruption);
        assert_eq!(of(20), WorkBudget::default().disruption / 2);
        assert_eq!(of(5), 0);
        let pods = |seconds| WorkBudget::within(Duration::from_secs(seconds)).provisioning.unwrap();
        assert!(pods(40) > pods(20) && pods(20) > pods(0) && pods(0) > 0);
        assert_eq!(WorkBudget::default().provisioning, None);
    }
}
