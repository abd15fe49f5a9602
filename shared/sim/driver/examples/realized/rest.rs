//! The launches and evictions until a cluster with consolidation is quiescent.

use crate::cluster::{Owner, claims, note_first_plan, pods, price, start};
use jiff::SignedDuration;
use nodeless_model::NodeClaim;
use nodeless_workloads::Mix;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A cluster is quiescent when no pod and no node has changed for this time.
const UNCHANGED: SignedDuration = SignedDuration::from_mins(30);
/// The maximum time until quiescence.
const LONGEST: SignedDuration = SignedDuration::from_hours(8);

/// Prints one line.
pub(crate) fn run(mix: Mix, count: usize, seed: u64, nominations: bool) {
    let mut driver = start(mix, count, seed, nominations, Owner::Deployments);
    let began = driver.world().now();
    let (mut launched, mut created) = (BTreeSet::new(), BTreeSet::new());
    let mut planned: BTreeMap<String, NodeClaim> = BTreeMap::new();
    let mut known = (Vec::new(), Vec::new());
    let mut changed = began;
    let at_rest = driver
        .advance_until(began.saturating_add(LONGEST).unwrap(), |driver| {
            let present = claims(driver);
            let has_instance = |claim: &NodeClaim| claim.status.instance.is_some();
            launched.extend(present.iter().filter(|claim| has_instance(claim)).map(|claim| claim.name.clone()));
            let pods = pods(driver);
            note_first_plan(&mut planned, &present);
            let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
            created.extend(pods.iter().map(|pod| uid(pod)));
            let nodes: Vec<_> = present.iter().map(|claim| (claim.name.clone(), claim.phase)).collect();
            let bound: Vec<_> = pods.iter().map(|pod| (uid(pod), pod["spec"]["nodeName"].clone())).collect();
            let now = driver.world().now();
            if known.0 != nodes || known.1 != bound {
                known = (nodes, bound);
                changed = now;
            }
            now.duration_since(changed) >= UNCHANGED
        })
        .unwrap();
    let all = claims(&driver);
    let pending = pods(&driver).iter().filter(|pod| pod["spec"]["nodeName"].is_null()).count();
    let (before, after) = (price(planned.values()), price(all.iter()));
    println!(
        "{:11} {seed} nominations {nominations:5} planned ${before:7.2} {:3} nodes, then ${after:7.2} {:3} nodes, ratio {:.3}, \
         {} launches ({:.2} a node), {} evictions ({:.2} a pod), {}{}",
        mix.name(),
        planned.len(),
        all.len(),
        after / before,
        launched.len(),
        launched.len() as f64 / all.len() as f64,
        created.len() - count,
        (created.len() - count) as f64 / count as f64,
        match at_rest {
            true => format!("quiescent after {} s", changed.duration_since(began).as_secs()),
            false => format!("not quiescent after {} hours", LONGEST.as_hours()),
        },
        if pending == 0 { String::new() } else { format!(", {pending} pods are pending") },
    );
}
