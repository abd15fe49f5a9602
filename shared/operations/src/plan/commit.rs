//! From the plan to claims in the table.

use super::pools::Judged;
use super::{PlanReport, Planner, Real, budgets, pod_event};
use crate::lines::{ClaimRefused, Failed};
use crate::names::Names;
use crate::node_class;
use jiff::Timestamp;
use nodeless_api::EC2NodeClass;
use nodeless_disruption::Replacement;
use nodeless_launch::budget::Budgets;
use nodeless_model::claim::{LaunchGroup, OfferingKey};
use nodeless_model::object::ObjectEvent;
use nodeless_model::{InstanceType, NodeClaim, NodeClaimSpec, NodeClaimStatus, NodePool, Phase, ResourceList, labels};
use nodeless_ports::PortError;
use nodeless_ports::claims::{Created, Decision, MOST_CREATED, PoolLimits};
use nodeless_scheduling::{Launch, Solution};
use std::collections::BTreeMap;
use std::time::Duration;

/// A node that is wanted, before it has a name.
pub(super) struct Wanted<'a> {
    pub(super) launch: &'a Launch,
    /// The pods that it is for, `namespace/name`.
    pub(super) pods: Vec<String>,
    /// The claims that it takes the place of.
    pub(super) replaces: Vec<String>,
    /// The offerings that it does not ask for, because others use up their launch budgets.
    pub(super) avoided: Vec<OfferingKey>,
}

impl Planner {
    #[expect(clippy::too_many_arguments, reason = "the plan's parts, which no struct would make clearer")]
    pub(super) async fn create_claims(
        &self,
        real: &Real<'_, '_>,
        solution: &Solution,
        judged: &[Judged],
        names: &mut Names,
        now: Timestamp,
        budgets: Budgets,
        report: &mut PlanReport,
        events: &mut Vec<ObjectEvent>,
    ) {
        let wanted = solution.launches.iter().map(|launch| {
            let pods = launch.pods.iter().filter_map(|pod| real.pod(*pod)).map(nodeless_model::Pod::key).collect();
            Wanted { launch, pods, replaces: Vec::new(), avoided: Vec::new() }
        });
        let (wanted, held) = budgets::within(wanted.collect(), judged, budgets, self.settings.group_size);
        let created = self.launch(wanted, judged, names, now, report).await;
        hold(held, real, report, events);
        let by_pod: BTreeMap<&str, &str> = created
            .iter()
            .flat_map(|claim| claim.spec.nominated_pods.iter().map(|pod| (pod.as_str(), claim.name.as_str())))
            .collect();
        for pod in real.problem.pods.iter().take(real.pods) {
            if let Some(claim) = by_pod.get(pod.key().as_str()) {
                events.push(pod_event(pod, false, "Nominated", &format!("Pod should schedule on: nodeclaim/{claim}")));
            }
        }
        let refused = solution.unschedulable.iter().filter(|refused| refused.pod < real.pods).count();
        if !created.is_empty() || refused > 0 {
            let detail = super::record::provisioning(real.problem, solution, &report.created);
            let summary = format!(
                "{} pods: {} fit on existing nodes, {} nodes launched, {} fit nowhere",
                report.pods,
                report.placed,
                created.len(),
                refused
            );
            self.record("provisioning", report.created.clone(), summary, detail, now).await;
        }
    }

    /// Writes claims for nodes that are wanted, group by group, and wakes whoever launches them.
    pub(super) async fn launch(
        &self,
        wanted: Vec<Wanted<'_>>,
        judged: &[Judged],
        names: &mut Names,
        now: Timestamp,
        report: &mut PlanReport,
    ) -> Vec<NodeClaim> {
        // Alike in everything that CreateFleet is told: these can share one call.
        let mut alike: BTreeMap<String, Vec<Wanted<'_>>> = BTreeMap::new();
        for one in wanted {
            alike.entry(one.key()).or_default().push(one);
        }
        let mut created = Vec::new();
        let mut leaders = Vec::new();
        let mut incomplete = false;
        for members in alike.values() {
            for group in members.chunks(usize::try_from(self.settings.group_size.max(1)).unwrap_or(100)) {
                let Some(pool) =
                    group.first().and_then(|one| judged.iter().find(|pool| pool.pool.name == one.launch.node_pool))
                else {
                    continue;
                };
                let claims = self.claims_of(group, pool, names, now).await;
                match self.write_group(claims, &limits(&pool.pool), report).await {
                    Some(written) => {
                        leaders.extend(written.first().map(|leader| (leader.name.clone(), Duration::ZERO)));
                        created.extend(written);
                    }
                    None => incomplete = true,
                }
            }
        }
        report.created.extend(created.iter().map(|claim| claim.name.clone()));
        if !leaders.is_empty()
            && let Err(error) = self.queue.wake_claims(&leaders).await
        {
            // The sweep finds the claims within a minute.
            self.context.log(&Failed { what: "wake claims", why: &error.to_string() });
        }
        if incomplete {
            self.plan_again().await;
        }
        created
    }

    async fn claims_of(
        &self,
        group: &[Wanted<'_>],
        judged: &Judged,
        names: &mut Names,
        now: Timestamp,
    ) -> Vec<NodeClaim> {
        let pool = &judged.pool;
        let class = self.cluster.node_class(&pool.template.node_class).await.ok().flatten();
        let named: Vec<(String, String)> = group.iter().map(|_| names.next(&pool.name)).collect();
        let id = named.first().map(|(_, uid)| uid.clone()).unwrap_or_default();
        let size = u32::try_from(group.len()).unwrap_or(u32::MAX);
        let members = (0_u32..).zip(group.iter().zip(named));
        members
            .map(|(index, (wanted, (name, uid)))| {
                let launch_group = LaunchGroup { id: id.clone(), index, size };
                claim(wanted, judged, class.as_ref(), name, uid, launch_group, now)
            })
            .collect()
    }

    /// The claims of a command's replacements, decided once and for all before the first is written. Each is launched by
    /// itself: a group that a crash leaves half written would be given up, and the command with it.
    pub(super) async fn planned(
        &self,
        replacements: &[Replacement],
        replaces: &[String],
        judged: &[Judged],
        names: &mut Names,
        now: Timestamp,
    ) -> Result<Vec<NodeClaim>, String> {
        let mut claims = Vec::with_capacity(replacements.len());
        for replacement in replacements {
            let launch = &replacement.launch;
            let pool = judged
                .iter()
                .find(|pool| pool.pool.name == launch.node_pool)
                .ok_or_else(|| format!("the NodePool {} of a replacement does not exist", launch.node_pool))?;
            let (pods, replaces) = (replacement.pods.clone(), replaces.to_vec());
            let wanted = Wanted { launch, pods, replaces, avoided: Vec::new() };
            claims.extend(self.claims_of(&[wanted], pool, names, now).await);
        }
        Ok(claims)
    }

    /// Writes the claims of a group in one transaction, or in as few as hold them: the first claim last, since without it the
    /// group is not launched. When a limit stands in the way, what was written before is taken back, as the number of
    /// instances of a group is fixed. When the table did not answer it may have been written all the same: then nothing is
    /// taken back. A group that is whole is launched, and one without its first member ends by itself.
    async fn write_group(
        &self,
        claims: Vec<NodeClaim>,
        limits: &PoolLimits,
        report: &mut PlanReport,
    ) -> Option<Vec<NodeClaim>> {
        let mut written: Vec<NodeClaim> = Vec::new();
        for together in claims.rchunks(MOST_CREATED) {
            let why = match self.claims.create_together(together, Some(limits)).await {
                Ok(Created::Written | Created::AlreadyThere) => {
                    written.extend(together.iter().rev().map(|claim| NodeClaim { version: 1, ..claim.clone() }));
                    continue;
                }
                Ok(Created::LimitReached { resource }) => {
                    self.take_back(&written).await;
                    format!("the NodePool's limit of {resource} would be passed")
                }
                Err(error) => error.to_string(),
            };
            if let Some(claim) = claims.first() {
                self.context.log(&ClaimRefused { claim: &claim.name, node_pool: &claim.node_pool, why: &why });
            }
            let names: Vec<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
            report.problems.push(format!("NodeClaims were not created: {why}: {}", names.join(", ")));
            return None;
        }
        written.reverse();
        Some(written)
    }

    async fn take_back(&self, written: &[NodeClaim]) {
        for claim in written {
            if let Err(error) = self.claims.delete(claim).await {
                // A group without its first member is never launched and ends by itself.
                self.context.log(&Failed { what: "take a claim back", why: &error.to_string() });
            }
        }
    }

    /// Writes down why something was decided. Nothing depends on it.
    pub(super) async fn record(
        &self,
        kind: &str,
        subjects: Vec<String>,
        summary: String,
        detail: String,
        now: Timestamp,
    ) {
        let decision = Decision {
            // One plan may decide several things of a kind.
            id: format!("{:020}-{kind}-{}", now.as_nanosecond(), subjects.first().map_or("", String::as_str)),
            at: now,
            kind: kind.to_owned(),
            subjects,
            summary,
            detail,
        };
        if let Err(error) = self.claims.record_decisions(&[decision], self.settings.keep_decisions).await {
            self.tell_failure("record a decision", &error);
        }
    }

    pub(super) fn tell_failure(&self, what: &str, error: &PortError) {
        self.context.log(&Failed { what, why: &error.to_string() });
    }
}

/// Tells pods whose nodes have to wait for a launch budget why, and has the next plan look again soon.
fn hold(held: Vec<(Wanted<'_>, String)>, real: &Real<'_, '_>, report: &mut PlanReport, events: &mut Vec<ObjectEvent>) {
    for (wanted, why) in held {
        report.wait_at_most(budgets::AGAIN);
        for pod in wanted.launch.pods.iter().filter_map(|pod| real.pod(*pod)) {
            events.push(pod_event(pod, true, "FailedScheduling", &format!("Failed to schedule pod, {why}")));
            report.unschedulable.push((pod.key(), why.clone()));
        }
    }
}

pub(super) fn limits(pool: &NodePool) -> PoolLimits {
    PoolLimits { resources: pool.limits.clone(), dollars_per_hour: pool.limit_dollars_per_hour }
}

/// What each of a launch's instance types has at the least.
fn least(launch: &Launch, types: &[InstanceType]) -> ResourceList {
    let of = |name: &String| types.iter().find(|kind| kind.name == *name).map(InstanceType::allocatable);
    let mut kinds = launch.instance_types.iter().filter_map(|kind| of(&kind.name));
    let Some(mut least) = kinds.next() else { return ResourceList::new() };
    for other in kinds {
        least = least.iter().map(|(name, quantity)| (name.to_owned(), quantity.min(other.get(name)))).collect();
    }
    least
}

fn claim(
    wanted: &Wanted<'_>,
    judged: &Judged,
    class: Option<&EC2NodeClass>,
    name: String,
    uid: String,
    launch_group: LaunchGroup,
    now: Timestamp,
) -> NodeClaim {
    let (launch, pool) = (wanted.launch, &judged.pool);
    let mut annotations = pool.template.annotations.clone();
    annotations.insert(labels::NODE_POOL_HASH.to_owned(), pool.hash.clone());
    annotations.insert(labels::NODE_POOL_HASH_VERSION.to_owned(), nodeless_api::hash::VERSION.to_owned());
    annotations.extend(class.map(node_class::hash_annotations).unwrap_or_default());
    if launch.min_values_relaxed {
        annotations.insert(labels::MIN_VALUES_RELAXED.to_owned(), "true".to_owned());
    }
    for (key, overlaid) in [
        (labels::PRICE_OVERLAY_APPLIED, &judged.types.priced),
        (labels::CAPACITY_OVERLAY_APPLIED, &judged.types.resourced),
    ] {
        if launch.instance_types.iter().any(|kind| overlaid.contains(&kind.name)) {
            annotations.insert(key.to_owned(), "true".to_owned());
        }
    }
    let mut node_labels = pool.template.labels.clone();
    node_labels.insert(labels::NODE_POOL.to_owned(), pool.name.clone());
    node_labels.insert(labels::EC2_NODE_CLASS.to_owned(), pool.template.node_class.clone());
    let mut claim = NodeClaim {
        name,
        uid,
        node_pool: pool.name.clone(),
        node_class: launch.node_class.clone(),
        created: now,
        version: 0,
        spec: NodeClaimSpec {
            requirements: launch.requirements.clone(),
            instance_types: launch.instance_types.iter().map(|kind| kind.name.clone()).collect(),
            labels: node_labels,
            annotations,
            taints: pool.template.taints.clone(),
            startup_taints: pool.template.startup_taints.clone(),
            requests: launch.requests.clone(),
            expire_after: pool.template.expire_after.and_then(nodeless_model::NillableDuration::duration),
            termination_grace_period: pool.template.termination_grace_period,
            launch_group: Some(launch_group),
            avoided_offerings: wanted.avoided.clone(),
            charge: launch.charge.clone(),
            replaces: wanted.replaces.clone(),
            nominated_pods: wanted.pods.clone(),
        },
        phase: Phase::Reserved,
        status: NodeClaimStatus::default(),
    };
    if wanted.pods.is_empty() {
        // It was asked for by number. Pods that wait may have what it will have in any case, until it is known what it has.
        claim.status.allocatable = least(launch, &judged.types.instance_types);
    }
    nodeless_lifecycle::prepare(&mut claim);
    claim
}
