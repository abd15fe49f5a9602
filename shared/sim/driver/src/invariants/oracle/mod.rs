//! The oracle, which checks the invariants after every step.

mod instances;
mod pods;
mod voluntary;

use crate::Driver;
use crate::invariants::announced_ends::AnnouncedEnds;
use crate::invariants::certificate_authorities::AuthorityChecks;
use crate::invariants::commands::CommandChecks;
use crate::invariants::empty_nodes::EmptyNodes;
use crate::invariants::lifetimes::{InterruptionChecks, drain_too_long, expired};
use crate::invariants::node_pools::NodePoolChecks;
use crate::invariants::nodes::{Nodes, OpenNodes};
use crate::invariants::on_demand_minimum::OnDemandChecks;
use crate::invariants::other_controllers::written;
use crate::invariants::recorded_time::RecordedTime;
use crate::invariants::records::{ClaimObjects, same_places};
use crate::invariants::surges::SurgeChecks;
use crate::invariants::unready_replacements::UnreadyReplacements;
use crate::invariants::unused_launches::UnusedLaunches;
use crate::invariants::unused_nodes::UnusedNodes;
use crate::invariants::virtual_pods::VirtualPodChecks;
use crate::invariants::{
    ACTIVE_AUTHORITY, ANNOUNCED_ENDS, DELETED_NODE_POOLS, DRAINS_END, EXPIRY, INTERRUPTIONS, LAUNCHES_ARE_TAKEN,
    METADATA, ONE_INSTANCE, OTHER_CONTROLLERS, QUOTAS, RECORDED_TIME, STAYS_OPEN, SURGES, UNREADY_REPLACEMENTS,
    UNUSABLE_NODE_POOLS, Violation, metadata, text,
};
use crate::scenarios::Scenario;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::resource::{NODES, PODS};
use nodeless_fake_kubernetes::{Change, ChangeKind};
use nodeless_model::NodeClaim;
use nodeless_world::resources::NODE_CLASSES;
use pods::Pending;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum time after the table was restored until Nodes have what their claims have: two sweeps, with calls that fail.
const REPAIRED_AFTER: SignedDuration = SignedDuration::from_mins(3);

/// Checks a world from outside.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    seen: u64,
    claims_seen: u64,
    pending: BTreeMap<String, Pending>,
    /// How long pods waited for their node, in milliseconds.
    pub(crate) waits: Vec<i64>,
    /// Instances by the uid of the claim that they were recorded on.
    instances: BTreeMap<String, String>,
    /// The name of the claim that an instance was recorded on, by the instance's id.
    machines: BTreeMap<String, String>,
    unowned: BTreeMap<String, Timestamp>,
    /// Claims with a voluntary disruption, by NodePool.
    leaving: BTreeSet<String>,
    /// Number of nodes by NodePool over the last minutes.
    sizes: BTreeMap<String, Vec<(Timestamp, usize)>>,
    pools: BTreeMap<String, Value>,
    node_pools: NodePoolChecks,
    authorities: AuthorityChecks,
    open_nodes: OpenNodes,
    launched: BTreeSet<String>,
    /// Instances whose nodes were disrupted involuntarily. A table that is restored to an earlier time does not know that.
    forced: BTreeSet<String>,
    /// When the table was last replaced.
    replaced: Option<Timestamp>,
    commands: CommandChecks,
    unready: UnreadyReplacements,
    on_demand: OnDemandChecks,
    surges: SurgeChecks,
    pub(crate) empty_nodes: EmptyNodes,
    pub(crate) virtual_pods: VirtualPodChecks,
    unused_nodes: UnusedNodes,
    unused_launches: UnusedLaunches,
    /// `None` if calls fail or messages are lost: then EC2 may end a spot instance before nodeless can act on its warning.
    interruptions: Option<InterruptionChecks>,
    /// `None` for the same reason.
    announced_ends: Option<AnnouncedEnds>,
    /// The pods that claims were created and started for. The reports of plans are checked a little later, when such a claim may be
    /// deleted again, or started for others.
    nominated: BTreeMap<String, BTreeSet<String>>,
    looked: Timestamp,
    recorded_time: RecordedTime,
    claim_objects: ClaimObjects,
    /// Whether limits of dollars per hour are checked: nodeless learns of new prices later, so a launch may cost more than it assumed.
    checks_dollars: bool,
    pub(crate) violations: Vec<Violation>,
}

impl Oracle {
    pub(crate) fn new(scenario: &Scenario, driver: &Driver) -> Self {
        let pools = scenario.objects.iter().filter(|object| object["kind"] == "NodePool");
        Self {
            seen: driver.world().api().revision(),
            pools: pools.map(|pool| (text(pool, "/metadata/name").to_owned(), pool.clone())).collect(),
            interruptions: scenario.is_reliable().then(InterruptionChecks::default),
            announced_ends: scenario.is_reliable().then(AnnouncedEnds::default),
            looked: driver.world().now(),
            checks_dollars: !scenario.changes_prices(),
            ..Self::default()
        }
    }

    /// The claims table was replaced by one of this earlier time, or by an empty one.
    pub(crate) fn table_replaced(&mut self, now: Timestamp, restored_to: Option<Timestamp>) {
        self.replaced = Some(now);
        self.unready.forget();
        self.unused_launches.forget();
        self.recorded_time.table_replaced(restored_to);
    }

    /// The number of launched instances that were observed.
    pub(crate) fn launched(&self) -> usize {
        self.launched.len()
    }

    /// Checks the cost records against the instances that ran.
    pub(crate) fn check_recorded_time(&mut self, driver: &Driver) {
        let wrong = self.recorded_time.wrong(driver);
        self.violated(driver.world().now(), RECORDED_TIME, wrong);
    }

    fn violated(&mut self, at: Timestamp, invariant: &'static str, details: impl IntoIterator<Item = String>) {
        self.violations.extend(details.into_iter().map(|detail| Violation { at, invariant, detail }));
    }

    /// Checks what changed since the last call.
    pub(crate) fn check(&mut self, driver: &Driver) {
        let now = driver.world().now();
        let api = driver.world().api();
        if api.revision() != self.seen {
            let changes = api.watch_since(None, self.seen).unwrap_or_default();
            self.seen = api.revision();
            for change in changes.iter().filter(|change| change.resource == PODS) {
                self.pod_changed(change, now);
                self.unused_launches.pod_changed(&change.object, change.kind == ChangeKind::Deleted);
                let lost = self.surges.pod_changed(driver, change, now);
                self.violated(now, SURGES, lost);
            }
            for change in &changes {
                self.violated(now, OTHER_CONTROLLERS, written(driver, change));
                self.node_pools.changed(change, now);
                self.note_event(change, now);
                if change.resource.kind == "NodePool" {
                    self.pool_changed(change);
                }
                if change.resource == NODES {
                    let closed = self.open_nodes.changed(&change.object, change.kind == ChangeKind::Deleted);
                    self.violated(now, STAYS_OPEN, closed);
                }
            }
        }
        let revision = driver.claims().revision();
        let due = now.duration_since(self.looked) >= SignedDuration::from_secs(30);
        if revision != self.claims_seen || due {
            self.claims_seen = revision;
            self.looked = now;
            let claims = driver.claims().snapshot();
            for claim in claims.iter().filter(|claim| !claim.spec.nominated_pods.is_empty()) {
                let nominated = self.nominated.entry(claim.name.clone()).or_default();
                nominated.extend(claim.spec.nominated_pods.iter().cloned());
            }
            let commands = driver.claims().commands_now();
            self.violations.extend(self.commands.check(&commands, &claims, now));
            let pools = &self.pools;
            let again = self.unready.check(&commands, &claims, |pool| template_of(driver, pools.get(pool)), now);
            self.violated(now, UNREADY_REPLACEMENTS, again);
            let in_vain = self.unused_launches.check(&claims, now);
            self.violated(now, LAUNCHES_ARE_TAKEN, in_vain);
            let exceeded = self.virtual_pods.check(driver, &claims);
            self.violated(now, QUOTAS, exceeded);
            self.violated(now, ONE_INSTANCE, same_places(&claims));
            self.check_instances(driver, &claims, now);
            self.check_voluntary_disruption(driver, &claims, now);
            self.check_lifetimes(driver, &claims, now);
            self.check_node_pools(driver, &claims, now);
        }
    }

    /// When claims and their instances ended or should have, and what their Nodes have of them.
    fn check_lifetimes(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let without = self.authorities.launched_without(driver);
        self.violated(now, ACTIVE_AUTHORITY, without);
        let instances = driver.world().ec2().instances();
        self.recorded_time.observe(claims, &instances, now);
        self.violated(now, EXPIRY, expired(claims, now));
        self.violated(now, DRAINS_END, drain_too_long(claims, now));
        let unhandled = self.interruptions.as_mut().map(|checks| checks.check(claims, &instances)).unwrap_or_default();
        self.violated(now, INTERRUPTIONS, unhandled);
        let unused = self.announced_ends.as_mut().map(|checks| checks.check(driver, claims, now)).unwrap_or_default();
        self.violated(now, ANNOUNCED_ENDS, unused);
        // Records of a table that was just restored may be older than the Nodes of their claims.
        let known = self.replaced.is_none_or(|at| now.duration_since(at) > REPAIRED_AFTER);
        let differences = if known { metadata::differences(&Nodes::read(driver), claims) } else { Vec::new() };
        self.violated(now, METADATA, differences);
    }

    fn check_node_pools(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let unusable =
            driver.world().ec2().with_account(|account| self.node_pools.created_for_unusable(claims, account));
        self.violated(now, UNUSABLE_NODE_POOLS, unusable);
        let stay = self.node_pools.outlive_their_pool(claims, now);
        self.violated(now, DELETED_NODE_POOLS, stay);
    }

    fn pool_changed(&mut self, change: &Change) {
        // Limits and budgets of a deleted NodePool no longer apply.
        if change.kind == ChangeKind::Deleted {
            self.pools.remove(change.name());
        } else {
            self.pools.insert(change.name().to_owned(), change.object.as_ref().clone());
        }
    }
}

/// What a NodePool launches, as a text that changes with its spec, and with the spec and the AMIs of its EC2NodeClass.
fn template_of(driver: &Driver, pool: Option<&Value>) -> String {
    let Some(pool) = pool else { return String::new() };
    let class = driver.world().api().get(&NODE_CLASSES, "", text(pool, "/spec/template/spec/nodeClassRef/name"));
    let class = class.map_or(Value::Null, |class| json!([class["metadata"]["generation"], class["status"]["amis"]]));
    format!("{} {} {class}", pool["metadata"]["uid"], pool["metadata"]["generation"])
}
