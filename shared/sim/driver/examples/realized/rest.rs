//! The launches and evictions until a cluster with consolidation is quiescent.

use crate::Arm;
use crate::cluster::{Owner, claims, note_first_plan, pods, price, start};
use jiff::SignedDuration;
use nodeless_driver::Driver;
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{ListOptions, PatchOptions, PatchType, Resource};
use nodeless_model::NodeClaim;
use nodeless_workloads::Mix;
use nodeless_world::resources::NODE_POOLS;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A cluster is quiescent when no pod and no node has changed for this time.
const UNCHANGED: SignedDuration = SignedDuration::from_mins(30);
/// The maximum time until quiescence.
const LONGEST: SignedDuration = SignedDuration::from_hours(8);

/// What changed until a cluster is quiescent.
#[derive(Default)]
struct Observed {
    /// The claims with an instance, by name.
    launched: BTreeSet<String>,
    /// The pods, by uid.
    created: BTreeSet<String>,
    /// The claims of the first plan.
    planned: BTreeMap<String, NodeClaim>,
    /// `None` if it was not quiescent within [`LONGEST`].
    seconds: Option<i64>,
}

impl Observed {
    fn until_quiescent(driver: &mut Driver) -> Self {
        let began = driver.world().now();
        let mut observed = Self::default();
        let mut known = (Vec::new(), Vec::new());
        let mut changed = began;
        let at_rest = driver
            .advance_until(began.saturating_add(LONGEST).unwrap(), |driver| {
                let present = claims(driver);
                let has_instance = |claim: &NodeClaim| claim.status.instance.is_some();
                let launched = present.iter().filter(|claim| has_instance(claim)).map(|claim| claim.name.clone());
                observed.launched.extend(launched);
                note_first_plan(&mut observed.planned, &present);
                let pods = pods(driver);
                let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
                observed.created.extend(pods.iter().map(|pod| uid(pod)));
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
        observed.seconds = at_rest.then(|| changed.duration_since(began).as_secs());
        observed
    }

    /// The launches and evictions, and when it ended. `nodes` and `pods` are those that need neither.
    fn summary(&self, driver: &Driver, nodes: usize, pods: usize) -> String {
        let (left, launches, evictions) =
            (claims(driver).len(), self.launched.len() - nodes, self.created.len() - pods);
        let pending = self::pods(driver).iter().filter(|pod| pod["spec"]["nodeName"].is_null()).count();
        format!(
            "{launches} launches ({:.2} a node), {evictions} evictions ({:.2} a pod), {}{}",
            launches as f64 / left as f64,
            evictions as f64 / pods as f64,
            match self.seconds {
                Some(seconds) => format!("quiescent after {seconds} s"),
                None => format!("not quiescent after {} hours", LONGEST.as_hours()),
            },
            if pending == 0 { String::new() } else { format!(", {pending} pods are pending") },
        )
    }
}

/// Prints one line.
pub(crate) fn run(mix: Mix, count: usize, seed: u64, arm: Arm) {
    let mut driver = start(mix, count, seed, arm, Owner::Deployments);
    let observed = Observed::until_quiescent(&mut driver);
    let all = claims(&driver);
    let (before, after) = (price(observed.planned.values()), price(all.iter()));
    println!(
        "{:11} {seed} without {:18} planned ${before:7.2} {:3} nodes, then ${after:7.2} {:3} nodes, ratio {:.3}, {}",
        mix.name(),
        arm.name,
        observed.planned.len(),
        all.len(),
        after / before,
        observed.summary(&driver, 0, count),
    );
}

/// Prints one line about a cluster where nodes are consolidated only after a third of the Deployments lost half of their pods.
pub(crate) fn scaled_down(mix: Mix, count: usize, seed: u64, arm: Arm) {
    let mut driver = start(mix, count, seed, arm, Owner::Deployments);
    let patch = |driver: &Driver, resource: &Resource, namespace: &str, name: &str, change: &Value| {
        let options = PatchOptions::default();
        driver.world().api().patch(resource, namespace, name, None, PatchType::Merge, change, &options).unwrap();
    };
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let consolidate = |driver: &Driver, after: &str| {
        let change = json!({ "spec": { "disruption": { "consolidateAfter": after } } });
        for pool in driver.world().api().list(&NODE_POOLS, &ListOptions::default()).unwrap().items {
            patch(driver, &NODE_POOLS, "", &text(&pool, "name"), &change);
        }
    };
    consolidate(&driver, "Never");
    Observed::until_quiescent(&mut driver);
    let before = claims(&driver);
    for deployment in driver.world().api().list(&DEPLOYMENTS, &ListOptions::default()).unwrap().items.iter().step_by(3)
    {
        let replicas = deployment["spec"]["replicas"].as_u64().unwrap().div_ceil(2);
        let (namespace, name) = (text(deployment, "namespace"), text(deployment, "name"));
        patch(&driver, &DEPLOYMENTS, &namespace, &name, &json!({ "spec": { "replicas": replicas } }));
    }
    consolidate(&driver, "30s");
    let later = driver.world().now().saturating_add(SignedDuration::from_secs(5)).unwrap();
    driver.advance_to(later).unwrap();
    let left = pods(&driver).len();
    let observed = Observed::until_quiescent(&mut driver);
    let after = claims(&driver);
    let prices = (price(before.iter()), price(after.iter()));
    println!(
        "{:11} {seed} without {:18} ${:7.2} {:3} nodes, then ${:7.2} {:3} nodes, ratio {:.3}, {}",
        mix.name(),
        arm.name,
        prices.0,
        before.len(),
        prices.1,
        after.len(),
        prices.1 / prices.0,
        observed.summary(&driver, before.len(), left),
    );
}
