//! Nodes without pods, computed from the JSON of Nodes, pods and NodePools.

use super::nodes::Nodes;
use super::{condition, disruption_budgets, local_volumes, text};
use crate::Driver;
use crate::scenarios::durations;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_kubernetes::ListOptions;
use nodeless_fake_kubernetes::resource::{NAMESPACES, PODS};
use nodeless_model::{NodeClaim, Phase, labels};
use nodeless_world::resources::{CAPACITY_BUFFERS, PROVISIONING_REQUESTS};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a node may be kept longer than its NodePool's `consolidateAfter`: a plan decides, another validates, and an outage of a service
/// lasts up to three minutes.
const LEAVES_WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// Since when nodes have no pods, and how often a node without pods was observed that may stay.
#[derive(Debug, Default)]
pub(crate) struct EmptyNodes {
    since: BTreeMap<String, Timestamp>,
    reported: BTreeSet<String>,
    /// The observations of nodes without pods that have to leave.
    pub(crate) counted: usize,
    /// The observations of nodes without pods that may stay, by the reason.
    pub(crate) exempt: BTreeMap<&'static str, usize>,
}

/// What the checks of one time read.
struct Observed<'o> {
    now: Timestamp,
    pools: &'o BTreeMap<String, Value>,
    pods: Vec<Arc<Value>>,
    /// The annotations of the Namespace kube-system.
    system: Value,
    sizes: BTreeMap<&'o str, usize>,
    disrupted: BTreeMap<&'o str, usize>,
    /// Whether a CapacityBuffer or a ProvisioningRequest may need an empty node.
    has_virtual_pods: bool,
}

impl EmptyNodes {
    /// The nodes that are kept without pods for too long.
    pub(super) fn check(
        &mut self,
        driver: &Driver,
        pools: &BTreeMap<String, Value>,
        claims: &[NodeClaim],
        now: Timestamp,
    ) -> Vec<String> {
        let nodes = Nodes::read(driver);
        let list = |resource| driver.world().api().list(resource, &ListOptions::default()).map(|list| list.items);
        let observed = Observed {
            now,
            pools,
            pods: list(&PODS).unwrap_or_default(),
            system: driver
                .world()
                .api()
                .get(&NAMESPACES, "", "kube-system")
                .map_or(Value::Null, |object| object["metadata"]["annotations"].clone()),
            sizes: nodes.sizes(),
            disrupted: disrupted(&nodes, claims),
            has_virtual_pods: [&CAPACITY_BUFFERS, &PROVISIONING_REQUESTS]
                .iter()
                .any(|resource| list(resource).is_ok_and(|objects| !objects.is_empty())),
        };
        let mut wrong = Vec::new();
        let mut empty = BTreeSet::new();
        for claim in claims.iter().filter(|claim| claim.phase == Phase::Initialized) {
            let Some(node) = nodes.of_claim(claim).next() else { continue };
            if observed.is_needed(claim, node) || local_volumes::lost(driver, &nodes, claim).is_some() {
                continue;
            }
            let patience = match observed.patience(claim, node) {
                Ok(patience) => patience,
                Err(exempt) => {
                    *self.exempt.entry(exempt).or_default() += 1;
                    continue;
                }
            };
            self.counted += 1;
            empty.insert(claim.uid.clone());
            let since = *self.since.entry(claim.uid.clone()).or_insert(now);
            if now.duration_since(since) > patience + LEAVES_WITHIN && self.reported.insert(claim.uid.clone()) {
                wrong.push(format!("the node of claim {} has no pods since {since}, and stays", claim.name));
            }
        }
        self.since.retain(|uid, _| empty.contains(uid));
        wrong
    }
}

impl Observed<'_> {
    /// Whether a pod uses a node, or is to use it.
    fn is_needed(&self, claim: &NodeClaim, node: &Value) -> bool {
        let name = text(node, "/metadata/name");
        self.pods.iter().any(|pod| {
            let key = format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            match text(pod, "/spec/nodeName") {
                "" => claim.spec.nominated_pods.contains(&key) || text(pod, "/status/nominatedNodeName") == name,
                bound => bound == name && uses_node(pod),
            }
        })
    }

    /// How long an empty node may stay, or why it may stay for ever.
    fn patience(&self, claim: &NodeClaim, node: &Value) -> Result<SignedDuration, &'static str> {
        let pool = claim.node_pool.as_ref().and_then(|pool| self.pools.get(pool)).ok_or("no NodePool")?;
        let name = text(pool, "/metadata/name");
        let after = text(pool, "/spec/disruption/consolidateAfter");
        let annotation = |key: &str| !pool["metadata"]["annotations"][key].is_null();
        let is_paused = |value: &Value| value.as_str().is_some_and(|value| value != "false");
        let windows = self.system["nodeless.sh/maintenance-windows"].as_str();
        let allowed = || {
            let size = self.sizes.get(name).copied().unwrap_or_default();
            disruption_budgets::allowed(pool, "Empty", size, &[self.now])
        };
        let cases = [
            (after == "Never", "Never"),
            (!pool["spec"]["replicas"].is_null(), "static"),
            (annotation(labels::WARM), "warm"),
            (annotation("nodeless.sh/min-on-demand") || annotation("nodeless.sh/min-savings-per-hour"), "minimum"),
            (
                is_paused(&pool["metadata"]["annotations"]["nodeless.sh/pause-disruption"])
                    || is_paused(&self.system["nodeless.sh/pause-disruption"]),
                "pause",
            ),
            (windows.is_some_and(|windows| !disruption_budgets::is_open(windows, self.now)), "window"),
            (self.has_virtual_pods, "buffer or request"),
            (self.asks_to_stay(node), "do-not-disrupt"),
            (!is_ready(node), "not ready"),
        ];
        if let Some((_, exempt)) = cases.iter().find(|(exempt, _)| *exempt) {
            return Err(exempt);
        }
        if allowed() <= self.disrupted.get(name).copied().unwrap_or_default() {
            return Err("budget");
        }
        // The default of the definition.
        durations::parse(if after.is_empty() { "0s" } else { after }).map_err(|_| "consolidateAfter")
    }

    /// Whether a node or a pod on it has the annotation do-not-disrupt.
    fn asks_to_stay(&self, node: &Value) -> bool {
        let asks = |object: &Value| !object["metadata"]["annotations"][labels::DO_NOT_DISRUPT].is_null();
        let name = text(node, "/metadata/name");
        asks(node) || self.pods.iter().any(|pod| text(pod, "/spec/nodeName") == name && asks(pod))
    }
}

/// The number of nodes of each NodePool that count against its budgets: those that leave, and initialized ones that are not ready.
fn disrupted<'c>(nodes: &Nodes, claims: &'c [NodeClaim]) -> BTreeMap<&'c str, usize> {
    let mut disrupted = BTreeMap::new();
    let counts = |claim: &NodeClaim| match claim.phase {
        Phase::Draining => true,
        Phase::Initialized => nodes.of_claim(claim).any(|node| !is_ready(node)),
        _ => false,
    };
    for pool in claims.iter().filter(|claim| counts(claim)).filter_map(|claim| claim.node_pool.as_deref()) {
        *disrupted.entry(pool).or_default() += 1;
    }
    disrupted
}

fn is_ready(node: &Value) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Whether a pod keeps its node: not those of DaemonSets and static ones, and not those that have ended or are being deleted.
fn uses_node(pod: &Value) -> bool {
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_of_node = owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet" || owner["kind"] == "Node");
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    !(is_of_node || ended || pod.pointer("/metadata/deletionTimestamp").is_some())
}
