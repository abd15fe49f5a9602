//! Nodes that are closed for other pods until DaemonSets are ready there: the annotation `nodeless.sh/wait-for-daemonsets`.
//!
//! Which DaemonSets a node waits for is decided when its claim is made, and recorded on the claim: the names in an annotation, and the
//! taint among the startup taints. So plans, disruption and initialization treat such a node like any other with a startup taint, and a
//! later change of the NodePool does not affect it.

use nodeless_model::{DaemonSet, DaemonSetName, Node, NodeClaim, NodePool, Pod, RefusingQuota, Taint, labels};
use nodeless_scheduling::{first_not_tolerated, may_carry};
use std::collections::BTreeSet;

/// The DaemonSets that new nodes of a NodePool wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// The DaemonSets.
    pub sets: BTreeSet<DaemonSetName>,
    /// Why they do not wait for others that the annotation names.
    pub ignored: Vec<String>,
}

impl Awaited {
    /// Those that the annotation of the NodePool names, as far as they exist and tolerate the taints of its nodes: others never run
    /// there, or not before the node is open.
    #[must_use]
    pub fn new(pool: &NodePool, all: &[DaemonSet]) -> Self {
        let mut taints = pool.template.taints.clone();
        taints.push(Taint::daemon_sets_not_ready());
        let mut awaited = Self::default();
        for name in pool.options.wait_for_daemon_sets.valid().into_iter().flatten() {
            let why = match all.iter().find(|set| name.is_of(set)) {
                None => "it does not exist; create it, or correct the annotation".to_owned(),
                Some(DaemonSet { refused_by: Some(RefusingQuota { quota, limit }), .. }) => {
                    format!("ResourceQuota {quota} allows it no pod ({limit}); raise the quota")
                }
                Some(set) => match first_not_tolerated(set, &taints) {
                    None => {
                        awaited.sets.insert(name.clone());
                        continue;
                    }
                    Some(taint) => {
                        format!("it does not tolerate the taint {taint}; add a toleration to its pod template")
                    }
                },
            };
            let key = labels::WAIT_FOR_DAEMON_SETS;
            awaited.ignored.push(format!("annotation {key}: nodes do not wait for DaemonSet {name}, because {why}"));
        }
        awaited
    }

    /// Records on a new claim that its node is closed until they are ready there.
    pub fn close(&self, claim: &mut NodeClaim) {
        if self.sets.is_empty() {
            return;
        }
        claim.spec.annotations.insert(labels::WAIT_FOR_DAEMON_SETS.to_owned(), joined(&self.sets));
        if !is_closed(claim) {
            claim.spec.startup_taints.push(Taint::daemon_sets_not_ready());
        }
    }
}

/// Whether the node of a claim is closed until DaemonSets are ready there.
pub(crate) fn is_closed(claim: &NodeClaim) -> bool {
    claim.spec.startup_taints.iter().any(|taint| taint.matches(&Taint::daemon_sets_not_ready()))
}

/// The DaemonSets that the node of a claim waits for.
#[must_use]
pub fn awaited_by(claim: &NodeClaim) -> BTreeSet<DaemonSetName> {
    // Only a value that was changed on the record itself is invalid; then there is nothing to wait for.
    let named = claim.spec.annotations.get(labels::WAIT_FOR_DAEMON_SETS);
    named.and_then(|text| DaemonSetName::listed(text)).unwrap_or_default()
}

/// The awaited DaemonSets without a ready pod on the node. A DaemonSet that does not exist, or whose pods the node may not carry, is not
/// waited for: it may have been deleted or changed since the claim was made.
#[must_use]
pub fn not_ready(claim: &NodeClaim, node: &Node, sets: &[DaemonSet], pods: &[Pod]) -> BTreeSet<DaemonSetName> {
    let mut taints = claim.spec.taints.clone();
    taints.push(Taint::daemon_sets_not_ready());
    let mut names = awaited_by(claim);
    names.retain(|name| {
        let is_ready = |pod: &Pod| name.controls(pod) && pod.is_active() && pod.ready == Some(true);
        let runs = |set: &DaemonSet| name.is_of(set) && may_carry(node, set, &taints);
        !pods.iter().any(is_ready) && sets.iter().any(runs)
    });
    names
}

/// `DaemonSet a/b is not ready`, `DaemonSets a/b, c/d are not ready`.
pub(crate) fn not_ready_text(names: &BTreeSet<DaemonSetName>) -> String {
    let (noun, verb) = if names.len() == 1 { ("DaemonSet", "is") } else { ("DaemonSets", "are") };
    format!("{noun} {} {verb} not ready on the node", joined(names))
}

fn joined(names: &BTreeSet<DaemonSetName>) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
