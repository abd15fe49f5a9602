//! The input of a plan: one value, read before the plan begins.

pub(crate) mod command_records;

use crate::PlanSettings;
use crate::snapshot::command_records::Commands;
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_commitments::Commitments;
use nodeless_disruption::spot_interruptions::RecentInterruptions;
use nodeless_model::node_pool::PoolUsage;
use nodeless_model::{ClusterLimits, EndedNode, NodeClaim};
use nodeless_operations::{Unread, names::Names};
use nodeless_ports::ShiftedZone;
use nodeless_ports::cluster::ClusterView;
use nodeless_state::StoredRecord;
use nodeless_state::capacity::{LaunchBudget, SpotInterruption, UnavailableOffering};
use nodeless_state::costs::StoredCosts;
use nodeless_state::plans::UnfinishedPlan;
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
    pub interruptions: Result<Vec<SpotInterruption>, Unread>,
    /// How many launches of an offering may be in progress; `None` if unknown, in which case no launch waits.
    pub launch_budgets: Option<Vec<LaunchBudget>>,
    /// The zones that the cluster is shifted away from.
    pub shifted: Vec<ShiftedZone>,
    /// The results of the last launches of each NodePool, or why they are unknown.
    pub registrations: Result<Vec<StoredRecord>, Unread>,
    /// The stops of instances that EC2 refused lately, by NodePool, or why they are unknown. Empty if no NodePool keeps warm nodes.
    pub refused_stops: Result<Vec<StoredRecord>, Unread>,
    /// The memory that nodes reported, or why it is unknown.
    pub reported_memory: Result<StoredRecord, Unread>,
    /// The disruption commands in progress.
    pub commands: Commands,
    /// The voluntary disruption within the last hour, or why it is unknown. `None` until it is read, which happens only if
    /// something is to be disrupted.
    pub churn: Option<Result<Vec<StoredRecord>, Unread>>,
    /// The nodes that the last decision did not evaluate, or why they are unknown.
    pub not_yet_evaluated: Result<BTreeSet<String>, Unread>,
    /// The pods that wait although plans place them on nodes that are ready for pods, or why they are unknown.
    pub waiting_pods: Result<StoredRecord, Unread>,
    /// An earlier plan that did not finish.
    pub unfinished: Option<UnfinishedPlan>,
    /// Whether this plan records what nodes cost.
    pub costs_due: bool,
    /// The recorded costs, or why they are unknown. `None` if they are read only when needed.
    pub costs: Option<Result<RecordedCosts, Unread>>,
    /// The commitments that are in effect, if the plan uses any.
    pub commitments: Option<Commitments>,
    /// The catalog.
    #[serde(with = "stored_catalog")]
    pub catalog: Arc<Catalog>,
}

/// The recorded costs of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCosts {
    /// The open record.
    pub open: StoredCosts,
    /// The instances that have ended since the open record, read after it.
    pub ended: Vec<EndedNode>,
}

impl Snapshot {
    /// Names for new claims: different in each plan, and the same for the same snapshot.
    pub(super) fn names(&self) -> Names {
        let claims = self.claims.iter().map(|claim| &claim.name);
        let taken = claims.chain(self.view.node_claims.iter().map(|claim| &claim.name));
        let taken = taken.chain(self.view.other_node_claims.iter().map(|claim| &claim.name));
        let seed = format!("{}/{}", self.cluster_name, self.now.as_nanosecond());
        Names::new(seed, taken.cloned().collect())
    }

    /// How often spot offerings were interrupted lately.
    pub(super) fn recent_interruptions(&self, claims: &[NodeClaim]) -> RecentInterruptions {
        let interruptions = self.interruptions.as_deref().unwrap_or_default();
        RecentInterruptions::new(interruptions, claims, self.now)
    }

    /// The limits of the cluster.
    #[must_use]
    pub fn cluster_limits(&self) -> ClusterLimits {
        self.view.options.limits()
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
            interruptions: Ok(Vec::new()),
            launch_budgets: None,
            shifted: Vec::new(),
            registrations: Ok(Vec::new()),
            refused_stops: Ok(Vec::new()),
            reported_memory: Ok(StoredRecord::default()),
            commands: Commands::default(),
            churn: None,
            not_yet_evaluated: Ok(BTreeSet::new()),
            waiting_pods: Ok(StoredRecord::default()),
            unfinished: None,
            costs_due: false,
            costs: None,
            commitments: None,
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
    /// The work that one vCPU does in a millisecond: a unit of [`nodeless_scheduling::Solution::work`] takes up to 50 ns.
    const PER_MILLISECOND: u64 = 20_000;
    /// The memory, in MB, with which a Lambda function has one vCPU; with less it has proportionally less. More vCPUs do not make a
    /// plan faster, because it runs on one thread. <https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>
    const MEMORY_OF_ONE_VCPU: u64 = 1_769;
    /// The time that is reserved for what is not counted: preparing instance types, writes, and ending.
    const RESERVED: Duration = Duration::from_secs(10);
    /// A plan decides about disruption up to three times: at first, without the NodePools where disruption has stopped, and for
    /// the record with all reasons.
    const MAX_DECISIONS: u64 = 3;
    /// A budget is halved at most this number of times, so that every plan schedules some pods.
    const MAX_HALVINGS: u32 = 8;

    /// The work that a function with this memory in MB does in this time; `None` stands for one vCPU.
    #[must_use]
    pub fn within(remaining: Duration, memory_megabytes: Option<u32>) -> Self {
        let usable = u64::try_from(remaining.saturating_sub(Self::RESERVED).as_millis()).unwrap_or(u64::MAX);
        let memory = memory_megabytes.map_or(Self::MEMORY_OF_ONE_VCPU, u64::from).min(Self::MEMORY_OF_ONE_VCPU);
        let work = |milliseconds: u64| {
            milliseconds.saturating_mul(Self::PER_MILLISECOND).saturating_mul(memory) / Self::MEMORY_OF_ONE_VCPU
        };
        Self {
            // A plan may do 5/4 of its limit. Pods come first, so that a plan that is late still schedules some of them.
            provisioning: Some(work(usable.max(1_000)) * 4 / 5),
            disruption: Self::default().disruption.min(work(usable) / Self::MAX_DECISIONS),
        }
    }

    /// The budget of a plan after this number of plans that did not finish: the work for pods is halved for each of them, because it
    /// may have taken longer than the function's timeout.
    #[must_use]
    pub fn after_unfinished(self, plans: u32) -> Self {
        let provisioning = self.provisioning.map(|work| work >> plans.min(Self::MAX_HALVINGS));
        Self { provisioning, ..self }
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

    const VCPU: Option<u32> = Some(1_769);

    fn provisioning(seconds: u64, memory: Option<u32>) -> u64 {
        WorkBudget::within(Duration::from_secs(seconds), memory).provisioning.unwrap()
    }

    fn disruption(seconds: u64, memory: Option<u32>) -> u64 {
        WorkBudget::within(Duration::from_secs(seconds), memory).disruption
    }

    #[test]
    fn less_time_is_less_work() {
        assert_eq!(provisioning(40, VCPU), 480_000_000, "30 s, 50 ns a unit, of which a plan may do 5/4");
        assert_eq!(provisioning(25, VCPU), 240_000_000);
        assert_eq!([11, 5, 0].map(|seconds| provisioning(seconds, VCPU)), [16_000_000; 3], "a second at least");
        assert_eq!(WorkBudget::default().provisioning, None, "without a deadline");
        assert_eq!(disruption(900, VCPU), WorkBudget::default().disruption, "never more than the default");
        assert_eq!(disruption(16, VCPU), 6 * 20_000_000 / 3, "a decision may be made three times");
        assert_eq!([10, 5, 0].map(|seconds| disruption(seconds, VCPU)), [0; 3], "nothing optional without time for it");
    }

    #[test]
    fn less_memory_is_less_work_and_a_second_vcpu_is_not_more() {
        assert_eq!(provisioning(40, None), provisioning(40, VCPU));
        assert_eq!(provisioning(40, Some(10_240)), provisioning(40, VCPU));
        // The default of the Terraform module, and the minimum of Lambda.
        assert_eq!(provisioning(40, Some(1_024)), 277_851_893);
        assert_eq!(provisioning(40, Some(128)), 34_731_486);
        assert_eq!(
            disruption(40, Some(1_024)),
            WorkBudget::default().disruption,
            "the default fits the default function"
        );
        assert_eq!(disruption(40, Some(128)), 600_000_000 * 128 / 1_769 / 3);
        assert_eq!(provisioning(0, Some(128)), 1_157_716);
    }

    #[test]
    fn each_plan_that_did_not_finish_halves_the_work_for_pods() {
        let whole = WorkBudget::within(Duration::from_secs(40), VCPU);
        let pods = |plans| whole.after_unfinished(plans).provisioning.unwrap();
        assert_eq!([0, 1, 2, 8].map(pods), [1, 2, 4, 256].map(|part| 480_000_000 / part));
        assert_eq!(pods(u32::MAX), pods(8));
        assert_eq!(whole.after_unfinished(3).disruption, whole.disruption);
        assert_eq!(WorkBudget::default().after_unfinished(3), WorkBudget::default());
    }
}
