//! Measures what Karpenter's gate `PodDeletionCostManagement` would save: runs scenarios in which ReplicaSets become smaller, once as they are,
//! and once with the pods deleted first that run on the nodes which Karpenter ranks first. The ranks are those of the moment of the deletion;
//! Karpenter writes them once a minute.
//!
//! `cargo run --release -p nodeless-driver --example deletion_cost -- FROM..TO [SCENARIO...]`
#![allow(clippy::unwrap_used, missing_docs)]

use jiff::Timestamp;
use nodeless_disruption::allowed_disruptions;
use nodeless_driver::scenarios::Scenario;
use nodeless_driver::simulation::Run;
use nodeless_fake_kubernetes::controllers::DeletionCosts;
use nodeless_fake_kubernetes::resource::{NODES, POD_DISRUPTION_BUDGETS, PODS};
use nodeless_fake_kubernetes::{ApiServer, ListOptions, Resource};
use nodeless_model::{DisruptionReason, labels};
use nodeless_telemetry::Null;
use nodeless_world::resources::{NODE_CLAIMS, NODE_POOLS};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The owners of pods that Karpenter expects to be made again elsewhere.
const MADE_AGAIN: [&str; 3] = ["ReplicaSet", "Job", "DaemonSet"];

/// Dollars, launches and evictions.
type Figures = [f64; 3];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seeds, names) = arguments.split_first().expect("FROM..TO [SCENARIO...]");
    let (from, to) = seeds.split_once("..").expect("a range such as 0..20");
    let seeds = from.parse::<u64>().unwrap()..to.parse().unwrap();
    let scenarios: Vec<&str> =
        Scenario::built_in_names().filter(|name| names.is_empty() || names.iter().any(|it| it == name)).collect();
    let arms: [Option<DeletionCosts>; 2] = [None, Some(ranks)];
    let runs: Vec<(usize, u64, usize)> = (0..scenarios.len())
        .flat_map(|scenario| seeds.clone().flat_map(move |seed| [(scenario, seed, 0), (scenario, seed, 1)]))
        .collect();
    let (next, sums) = (AtomicUsize::default(), Mutex::new(vec![[Figures::default(); 2]; scenarios.len()]));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(&(scenario, seed, arm)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let figures = measure(scenarios[scenario], seed, arms[arm]);
                    let mut sums = sums.lock().unwrap();
                    sums[scenario][arm].iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
                }
            });
        }
    });
    println!(
        "| scenario | dollars | with ranks | launches | with ranks | evictions | with ranks |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for (name, [plain, ranked]) in scenarios.iter().zip(sums.into_inner().unwrap()) {
        let cells: Vec<String> =
            plain.iter().zip(ranked).map(|(plain, ranked)| format!("{plain:.2} | {ranked:.2}")).collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}

fn measure(name: &str, seed: u64, deletion_costs: Option<DeletionCosts>) -> Figures {
    let scenario = Scenario { deletion_costs, ..Scenario::built_in(name).unwrap() };
    let report = Run::new(scenario, seed, None, Arc::new(Null)).unwrap().finish().unwrap();
    [report.dollars, report.launched as f64, report.evictions.values().sum::<u64>() as f64]
}

fn list(api: &ApiServer, resource: &Resource) -> Vec<Arc<Value>> {
    api.list(resource, &ListOptions::default()).unwrap().items
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn annotated(object: &Value, annotation: &str) -> bool {
    object["metadata"]["annotations"][annotation] == "true"
}

fn is_disrupted(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.into_iter().any(|taint| taint["key"] == labels::DISRUPTED_TAINT)
}

/// Karpenter's ranks of nodes (`pkg/controllers/pod/deletioncost` of kubernetes-sigs/karpenter#2894): nodes that are being disrupted, then as
/// many drifted nodes and as many others as the budgets of their NodePool allow, those with fewer pods first. Other nodes have none.
fn ranks(api: &ApiServer, now: Timestamp) -> BTreeMap<String, i32> {
    let mut on_node: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
    for pod in list(api, &PODS) {
        on_node.entry(text(&pod, "/spec/nodeName").to_owned()).or_default().push(pod);
    }
    let budgets = list(api, &POD_DISRUPTION_BUDGETS);
    let drifted: Vec<String> = list(api, &NODE_CLAIMS)
        .iter()
        .filter(|claim| is_drifted(claim))
        .map(|claim| text(claim, "/status/nodeName").to_owned())
        .collect();
    let mut nodes: Vec<(usize, Arc<Value>)> = list(api, &NODES)
        .into_iter()
        .map(|node| (on_node.get(text(&node, "/metadata/name")).map_or(0, Vec::len), node))
        .collect();
    nodes.sort_by_key(|(pods, node)| (*pods, text(node, "/metadata/name").to_owned()));

    let mut ranks = BTreeMap::new();
    let mut groups: [Vec<String>; 2] = Default::default();
    for pool in list(api, &NODE_POOLS) {
        let of_pool: Vec<&Value> = nodes
            .iter()
            .map(|(_, node)| node.as_ref())
            .filter(|node| node["metadata"]["labels"][labels::NODE_POOL] == pool["metadata"]["name"])
            .collect();
        let gone = of_pool
            .iter()
            .filter(|node| is_disrupted(node) || !node["metadata"]["deletionTimestamp"].is_null())
            .count();
        let left = |reason| allowed(&pool, reason, of_pool.len(), now).saturating_sub(gone);
        let mut left = [left(DisruptionReason::Drifted), left(DisruptionReason::Underutilized)];
        let never = pool["spec"]["disruption"]["consolidateAfter"] == "Never";
        for node in of_pool {
            let name = text(node, "/metadata/name").to_owned();
            let pods = on_node.get(&name).map_or(&[][..], Vec::as_slice);
            let group = usize::from(!drifted.contains(&name));
            if is_disrupted(node) {
                ranks.insert(name, i32::MIN);
            } else if !never
                && !annotated(node, labels::DO_NOT_DISRUPT)
                && pods.iter().all(|pod| may_move(pod, &budgets))
                && left[group] > 0
            {
                left[group] -= 1;
                groups[group].push(name);
            }
        }
    }
    // Each group in the order of the pods of its nodes, over all NodePools.
    let place = |name: &String| nodes.iter().position(|(_, node)| text(node, "/metadata/name") == name);
    groups.iter_mut().for_each(|group| group.sort_by_key(place));
    let ranked = groups.concat();
    let first = -i32::try_from(ranked.len()).unwrap();
    ranks.extend(ranked.into_iter().zip(first..));
    ranks
}

fn is_drifted(claim: &Value) -> bool {
    let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Drifted" && condition["status"] == "True")
}

/// How many nodes the budgets of a NodePool with so many nodes allow to be disrupted at once.
fn allowed(pool: &Value, reason: DisruptionReason, total: usize, now: Timestamp) -> usize {
    let pool: nodeless_api::NodePool = serde_json::from_value(pool.clone()).unwrap();
    let total = u32::try_from(total).unwrap();
    let allowed = allowed_disruptions(&nodeless_model::NodePool::from(&pool), reason, total, now).unwrap_or(total);
    usize::try_from(allowed).unwrap()
}

/// Whether Karpenter ranks a node with this pod.
fn may_move(pod: &Value, budgets: &[Arc<Value>]) -> bool {
    let owners: Vec<&str> =
        pod["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(|owner| text(owner, "/kind")).collect();
    let is_made_again = !owners.is_empty() && owners.iter().all(|kind| MADE_AGAIN.contains(kind));
    let is_held = |budget: &Arc<Value>| {
        let selected = budget["spec"]["selector"]["matchLabels"].as_object();
        budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
            && budget["status"]["disruptionsAllowed"] == 0
            && selected.is_some_and(|all| all.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value))
    };
    (is_made_again || text(pod, "/metadata/namespace") == "kube-system")
        && !annotated(pod, labels::DO_NOT_DISRUPT)
        && !budgets.iter().any(is_held)
}
