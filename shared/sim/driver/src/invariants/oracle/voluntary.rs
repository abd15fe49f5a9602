//! Voluntary disruption against what forbids it when it is decided.

use super::Oracle;
use super::pods::Pending;
use crate::Driver;
use crate::invariants::certificate_authorities::AuthorityChecks;
use crate::invariants::nodes::Nodes;
use crate::invariants::{
    AMI_CANARY, DISRUPTION_BUDGETS, DO_NOT_DISRUPT, EMPTY_NODES, LOCAL_VOLUMES, MAINTENANCE, NODES_ARE_USED,
    ON_DEMAND_MINIMUM, ONE_ROTATION, ami_canary, disruption_budgets, local_volumes, text,
};
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::{NAMESPACES, PODS};
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{NodeClaim, Phase, labels};
use serde_json::Value;

/// The time for which the maximum number of nodes of a NodePool counts for its budgets: a plan uses the state at its start.
const BUDGET_WINDOW: SignedDuration = SignedDuration::from_mins(5);

/// The reason of the kube-scheduler that no object states, and no plan can know.
const UNKNOWABLE: &str = "node(s) were refused by a plugin";

/// A decision must take into account the pods that have run for longer than this.
const KNOWN_AFTER: SignedDuration = SignedDuration::from_mins(1);

impl Oracle {
    /// Whenever the voluntary disruption of a claim begins, all disruptions with that reason are counted against the budgets, and
    /// its pods are checked for blocking it.
    pub(super) fn check_voluntary_disruption(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let nodes = Nodes::read(driver);
        for (pool, size) in nodes.sizes() {
            let history = self.sizes.entry(pool.to_owned()).or_default();
            history.retain(|(at, _)| now.duration_since(*at) <= BUDGET_WINDOW);
            history.push((now, size));
        }
        let leaving: Vec<(&NodeClaim, &'static str)> =
            claims.iter().filter_map(|claim| Some((claim, voluntary_reason(claim)?))).collect();
        let system = driver.world().api().get(&NAMESPACES, "", "kube-system").ok();
        let windows = system.and_then(|it| {
            it["metadata"]["annotations"]["nodeless.sh/maintenance-windows"].as_str().map(str::to_owned)
        });
        let mut wrong = Vec::new();
        let left: Vec<&NodeClaim> = leaving.iter().map(|(claim, _)| *claim).collect();
        let below = self.on_demand.check(driver, &self.pools, claims, &left, now);
        wrong.extend(below.into_iter().map(|detail| (ON_DEMAND_MINIMUM, detail)));
        let empty = self.empty_nodes.check(driver, &self.pools, claims, now);
        wrong.extend(empty.into_iter().map(|detail| (EMPTY_NODES, detail)));
        for (claim, reason) in leaving.iter().filter(|(claim, _)| !self.leaving.contains(&claim.name)) {
            // A plan uses the state at its start.
            let taken = claim.condition(condition::DISRUPTION_REASON).map_or(now, |it| it.last_transition_time);
            let decided = self.commands.decided(claim, now).map_or(taken, |validated| validated.min(taken));
            // A plan uses the time at its start.
            let begun = claim.status.termination.as_ref().map_or(now, |end| end.requested);
            if windows.as_ref().is_some_and(|windows| !disruption_budgets::is_open(windows, begun)) {
                let detail =
                    format!("node of claim {} leaves for {reason} since {begun}, outside of the windows", claim.name);
                wrong.push((MAINTENANCE, detail));
            }
            if let Some(violation) = self.commands.leaves(claim, now) {
                wrong.push((violation.invariant, violation.detail));
            }
            if let Some(what) = do_not_disrupt_on(driver, &nodes, claim, decided) {
                let detail = format!("node of claim {} leaves for {reason}, and {what}", claim.name);
                wrong.push((DO_NOT_DISRUPT, detail));
            }
            if *reason != "Drifted"
                && let Some(lost) = local_volumes::lost(driver, &nodes, claim)
            {
                let detail = format!("node of claim {} leaves for {reason}, with the volume of {lost}", claim.name);
                wrong.push((LOCAL_VOLUMES, detail));
            }
            if *reason == "Empty" {
                let knowable = |pod: &Pending| !pod.message.contains(UNKNOWABLE);
                let waiting = self.pending.iter().filter(|(_, pod)| pod.created < claim.created && knowable(pod));
                let waiting = waiting.map(|(uid, pod)| (uid.as_str(), pod.key.as_str())).collect();
                let unused = self.unused_nodes.left(claim, &waiting);
                wrong.extend(unused.map(|detail| (NODES_ARE_USED, detail)));
            }
            let Some(pool) = &claim.node_pool else { continue };
            let Some(object) = self.pools.get(pool) else { continue };
            if *reason == "Drifted" {
                wrong.extend(drift_violations(&mut self.authorities, driver, object, claims, claim, decided));
            }
            let most = self.sizes.get(pool).and_then(|sizes| sizes.iter().map(|(_, size)| *size).max()).unwrap_or(0);
            let allowed = disruption_budgets::allowed(object, reason, most, &[decided, now]);
            let count = leaving.iter().filter(|(other, why)| other.is_of(pool) && why == reason).count();
            if count > allowed {
                let detail = format!(
                    "{count} nodes of NodePool {pool} leave for {reason}, and its budgets allow {allowed} of {most}"
                );
                wrong.push((DISRUPTION_BUDGETS, detail));
            }
        }
        self.leaving = leaving.iter().map(|(claim, _)| claim.name.clone()).collect();
        wrong.into_iter().for_each(|(invariant, detail)| self.violated(now, invariant, [detail]));
    }
}

/// Why a node of a NodePool that drifted should not leave.
fn drift_violations(
    authorities: &mut AuthorityChecks,
    driver: &Driver,
    pool: &Value,
    claims: &[NodeClaim],
    claim: &NodeClaim,
    decided: Timestamp,
) -> Vec<(&'static str, String)> {
    let canary = ami_canary::violation(pool, claims, claim, decided, driver.world().now());
    let again = authorities.should_stay(driver, claim);
    let canary = canary.map(|detail| (AMI_CANARY, detail));
    canary.into_iter().chain(again.map(|detail| (ONE_ROTATION, detail))).collect()
}

/// The reason of a voluntary disruption, as budgets name it. Karpenter no longer counts a node whose instance is being
/// terminated: it has no pods any more. Neither has a warm node, which was launched for no pod and is not initialized.
fn voluntary_reason(claim: &NodeClaim) -> Option<&'static str> {
    let is_warm = claim.spec.nominated_pods.is_empty() && !claim.has_condition(condition::INITIALIZED);
    let drains = claim.phase == Phase::Draining && !is_warm;
    let end = claim.status.termination.as_ref().filter(|_| drains)?;
    match end.reason {
        TerminationReason::Empty => Some("Empty"),
        TerminationReason::Underutilized => Some("Underutilized"),
        TerminationReason::Drifted => Some("Drifted"),
        TerminationReason::Unbalanced => Some("Unbalanced"),
        _ => None,
    }
}

/// The reason why a node was not to be disrupted at the time of the decision. Pods do not block drift of a node with a termination grace
/// period.
fn do_not_disrupt_on(driver: &Driver, nodes: &Nodes, claim: &NodeClaim, decided: Timestamp) -> Option<String> {
    let asks = |object: &Value| object["metadata"]["annotations"][labels::DO_NOT_DISRUPT] == "true";
    if nodes.of_claim(claim).any(asks) {
        return Some("the node has the annotation do-not-disrupt".to_owned());
    }
    let drifted = claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Drifted);
    if drifted && claim.spec.termination_grace_period.is_some() {
        return None;
    }
    let pods_on = |node: &Value| {
        let fields = format!("spec.nodeName={}", text(node, "/metadata/name"));
        let list = driver.world().api().list(&PODS, &ListOptions { fields, ..ListOptions::default() });
        list.map(|list| list.items).unwrap_or_default()
    };
    let pods: Vec<_> = nodes.of_claim(claim).flat_map(pods_on).collect();
    let forbids = |pod: &&std::sync::Arc<Value>| {
        let started: Option<Timestamp> = text(pod, "/status/startTime").parse().ok();
        let known = started.is_some_and(|started| decided.duration_since(started) > KNOWN_AFTER);
        let runs = text(pod, "/status/phase") == "Running" && pod.pointer("/metadata/deletionTimestamp").is_none();
        asks(pod) && known && runs
    };
    pods.iter()
        .find(forbids)
        .map(|pod| format!("pod {} has the annotation do-not-disrupt", text(pod, "/metadata/name")))
}
