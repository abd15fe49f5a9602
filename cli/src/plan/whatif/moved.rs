//! What the pods on nodes of no NodePool would cost on nodes of NodePools: those of node groups, EKS Auto Mode and Fargate.

use crate::error::CliError;
use crate::plan::whatif::cost::{PodWithoutNode, month};
use crate::plan::wording::parts::rounded;
use nodeless_api::view::ClusterView;
use nodeless_catalog::capacity_type_of;
use nodeless_model::{CapacityType, NodePool, labels};
use nodeless_planner::CurrentNode;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The labels with the name of a node group.
const NODE_GROUP: [&str; 2] = ["eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name"];
/// The label of EKS with the kind of compute that is not EC2 of a node group.
const COMPUTE_TYPE: &str = "eks.amazonaws.com/compute-type";
/// The categories of the assumed NodePool, besides those of the nodes that it replaces.
const CATEGORIES: [&str; 3] = ["c", "m", "r"];

/// What provisions a node of no NodePool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Origin {
    NodeGroup {
        name: String,
    },
    AutoMode,
    Fargate,
    /// A machine outside of AWS, which no NodePool replaces.
    Hybrid,
    Other,
}

/// The nodes of one origin today.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Source {
    pub(crate) origin: Origin,
    pub(crate) nodes: usize,
    /// The sum of the known prices.
    pub(crate) price_per_hour: f64,
    pub(crate) dollars_per_month: i64,
    /// The number of nodes whose price is unknown.
    pub(crate) without_price: usize,
    /// The number of pods that move, without those of DaemonSets.
    pub(crate) pods: usize,
}

/// A node that stays, because a pod on it fits no NodePool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Staying {
    pub(crate) node: String,
    pub(crate) origin: Origin,
    /// The pods, with the reasons.
    pub(crate) pods: Vec<PodWithoutNode>,
}

/// Where pods come from, and what stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moved {
    pub(crate) from: Vec<Source>,
    pub(crate) stays: Vec<Staying>,
    /// The requirements of the NodePool that is assumed, if the input has none.
    pub(crate) assumed: Option<String>,
}

impl Origin {
    /// The origin of a node of no NodePool.
    fn new(node: &CurrentNode) -> Self {
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        match label(COMPUTE_TYPE) {
            Some("fargate") => Self::Fargate,
            Some("auto") => Self::AutoMode,
            Some("hybrid") => Self::Hybrid,
            _ => match NODE_GROUP.iter().find_map(|key| label(key)) {
                Some(name) => Self::NodeGroup { name: name.to_owned() },
                None => Self::Other,
            },
        }
    }
}

/// The nodes that pods are moved from, by name.
pub(super) fn candidates(nodes: &[CurrentNode]) -> BTreeMap<&str, Origin> {
    let of_no_pool = nodes.iter().filter(|node| node.node_pool.is_none());
    let origins = of_no_pool.map(|node| (node.name.as_str(), Origin::new(node)));
    origins.filter(|(_, origin)| *origin != Origin::Hybrid).collect()
}

/// The nodes of each origin.
pub(super) fn sources(view: &ClusterView, nodes: &[CurrentNode], origins: &BTreeMap<&str, Origin>) -> Vec<Source> {
    let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in view.pods().filter(|pod| pod.is_reschedulable()) {
        pod.node_name.iter().for_each(|node| *pods.entry(node).or_default() += 1);
    }
    let mut sources: BTreeMap<&Origin, Source> = BTreeMap::new();
    for node in nodes {
        let Some(origin) = origins.get(node.name.as_str()) else { continue };
        let empty = || Source {
            origin: origin.clone(),
            nodes: 0,
            price_per_hour: 0.0,
            dollars_per_month: 0,
            without_price: 0,
            pods: 0,
        };
        let source = sources.entry(origin).or_insert_with(empty);
        source.nodes += 1;
        source.pods += pods.get(node.name.as_str()).copied().unwrap_or_default();
        match node.price_per_hour {
            Some(price) => source.price_per_hour = rounded(source.price_per_hour + price),
            None => source.without_price += 1,
        }
        source.dollars_per_month = month(source.price_per_hour);
    }
    sources.into_values().collect()
}

/// The nodes whose pods fit no NodePool, with these pods.
pub(super) fn staying(
    view: &ClusterView,
    origins: &BTreeMap<&str, Origin>,
    refused: &[&PodWithoutNode],
) -> BTreeMap<String, Staying> {
    let refused: BTreeMap<&str, &PodWithoutNode> = refused.iter().map(|one| (one.pod.as_str(), *one)).collect();
    let mut staying: BTreeMap<String, Staying> = BTreeMap::new();
    for pod in view.pods() {
        let Some((node, refused)) = pod.node_name.as_ref().zip(refused.get(pod.key().as_str())) else { continue };
        let Some(origin) = origins.get(node.as_str()) else { continue };
        let empty = || Staying { node: node.clone(), origin: origin.clone(), pods: Vec::new() };
        staying.entry(node.clone()).or_insert_with(empty).pods.push((*refused).clone());
    }
    staying
}

/// A NodePool as of the nodes that it replaces, if any, and its requirements in words.
pub(in crate::plan) fn assumed_pool(
    nodes: &[CurrentNode],
    origins: &BTreeMap<&str, Origin>,
) -> Result<(NodePool, String), CliError> {
    let replaced = || nodes.iter().filter(|node| origins.contains_key(node.name.as_str()));
    let values = |key: &str| replaced().filter_map(|node| node.labels.get(key).cloned()).collect::<BTreeSet<String>>();
    let mut architectures = values(labels::ARCH);
    if architectures.is_empty() {
        architectures.insert("amd64".to_owned());
    }
    // Only pods that may all be interrupted today may be so then.
    let is_spot = |node: &CurrentNode| capacity_type_of(&node.labels) == Some(CapacityType::Spot);
    let bought = match replaced().next().is_some() && replaced().all(is_spot) {
        true => CapacityType::Spot,
        false => CapacityType::OnDemand,
    };
    let categories = values(labels::INSTANCE_TYPE);
    let categories =
        categories.iter().map(|kind| kind.chars().take_while(char::is_ascii_lowercase).collect::<String>());
    let categories: BTreeSet<String> =
        categories.filter(|category| category.len() == 1).chain(CATEGORIES.map(str::to_owned)).collect();
    let list = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>();
    let manifest = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": "default" },
        "spec": { "template": { "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [
                { "key": labels::ARCH, "operator": "In", "values": list(&architectures) },
                { "key": labels::OS, "operator": "In", "values": ["linux"] },
                { "key": labels::CAPACITY_TYPE, "operator": "In", "values": [bought] },
                { "key": labels::INSTANCE_CATEGORY, "operator": "In", "values": list(&categories) },
                { "key": labels::INSTANCE_GENERATION, "operator": "Gt", "values": ["2"] },
            ],
        } } },
    });
    let pool: nodeless_api::NodePool =
        serde_json::from_value(manifest).map_err(|error| CliError::Form(error.to_string()))?;
    let (architectures, categories) = (list(&architectures).join(" and "), list(&categories).join(", "));
    let described = format!("{bought}, {architectures}, instance categories {categories} of generations above 2");
    Ok((NodePool::from(&pool), described))
}
