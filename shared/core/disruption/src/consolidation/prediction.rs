//! The predicted bindings during one evaluation of all candidates.

use crate::cluster::{AssumedBindings, Cluster, Options};
use crate::simulation::packed::Mover;
use crate::simulation::{Expected, bound_pods};
use nodeless_model::hashed::HashMap;
use nodeless_model::{Node, Pod, ResourceIndex, ResourceList};
use nodeless_scheduling::{BindingNode, Bindings, ExistingNode, ExistingNodes, Problem};

/// The predicted bindings of the pods of all commands that were accepted so far.
pub(super) struct Prediction<'c, 'a> {
    /// The cluster with the pods as users declared them: the kube-scheduler binds a pod whose preferences no node meets.
    cluster: &'c Cluster<'a>,
    expected: &'c Expected<'a>,
    /// Where consolidation treats the preferences of a pod as required, the pod as declared, by the address of the other.
    declared: HashMap<*const Pod, &'a Pod>,
    /// Only once it is needed.
    pub(super) nodes: Option<Nodes<'a>>,
}

/// The nodes that the kube-scheduler binds pods to.
pub(super) struct Nodes<'a> {
    pub(super) bindings: Bindings<'a>,
    pub(super) by_name: HashMap<String, usize>,
    /// Makes nodes of launches.
    pub(super) converted: ExistingNodes<'a>,
    /// Pods of accepted commands that are not bound yet.
    pub(super) waiting: Vec<Mover<'a>>,
    /// Pods of accepted commands and their predicted nodes.
    pub(super) bound: Vec<(usize, Mover<'a>)>,
}

impl<'c, 'a> Prediction<'c, 'a> {
    /// `keeping` is the cluster that consolidation evaluates, with the same nodes and pods in the same order as `cluster`. `None` if pods
    /// are assumed to go where plans place them.
    pub(super) fn assumed(
        keeping: &Cluster<'a>,
        cluster: &'c Cluster<'a>,
        expected: &'c Expected<'a>,
        options: &Options,
    ) -> Option<Self> {
        let pods = |cluster: &Cluster<'a>| cluster.nodes.iter().flat_map(|node| node.pods.clone()).collect::<Vec<_>>();
        let pairs = pods(keeping).into_iter().zip(pods(cluster));
        let declared = pairs.filter(|(held, pod)| !std::ptr::eq(*held, *pod));
        let declared = declared.map(|(held, pod)| (std::ptr::from_ref(held), pod)).collect();
        let predicted = options.bindings == AssumedBindings::Predicted;
        predicted.then_some(Self { cluster, expected, declared, nodes: None })
    }

    /// Pods as users declared them.
    pub(super) fn declared(&self, movers: &[Mover<'a>]) -> Vec<Mover<'a>> {
        let declared = |pod: &'a Pod| self.declared.get(&std::ptr::from_ref(pod)).copied().unwrap_or(pod);
        movers.iter().map(|mover| Mover { class: mover.class, pod: declared(mover.pod) }).collect()
    }
}

impl<'a> Nodes<'a> {
    /// The nodes that the kube-scheduler binds pods to now, whether or not pods are moved there voluntarily: those that joined
    /// and are neither cordoned nor disrupted. Pods that are expected on them count as bound. `pods` are those that may be moved.
    pub(super) fn new(prediction: &Prediction<'_, 'a>, resources: ResourceIndex, pods: Vec<&'a Pod>) -> Self {
        let cluster = prediction.cluster;
        let mut known: HashMap<String, &Node> = HashMap::default();
        let mut existing: Vec<ExistingNode> = Vec::new();
        let mut converted = ExistingNodes::new(cluster.daemon_sets);
        let ready = |node: &&crate::ClusterNode<'a>| node.is_initialized() || !node.is_managed();
        for of in cluster.nodes.iter().filter(|node| !node.is_leaving()).filter(ready) {
            let Some(node) = of.node else { continue };
            if let Some(found) = of.existing(&mut converted) {
                known.insert(found.name.clone(), node);
                existing.push(found);
            }
        }
        existing.sort_by(|a, b| a.name.cmp(&b.name));
        let mut problem =
            Problem { nodes: existing, bound_pods: bound_pods(cluster), facts: cluster.facts, ..Problem::default() };
        prediction.expected.subtract_expected(&mut problem);
        let running = problem.bound_pods.clone();
        let mut bound: HashMap<&str, Vec<&'a Pod>> =
            problem.bound_pods.into_iter().map(|bound| (bound.name, bound.pods)).collect();
        let mut bindings = Bindings::new(resources, cluster.facts, pods, running).with_daemon_sets(cluster.daemon_sets);
        let mut by_name = HashMap::default();
        for node in problem.nodes {
            let allocatable = known.get(&node.name).map_or_else(ResourceList::new, |node| node.allocatable.clone());
            let pods = bound.remove(node.name.as_str()).unwrap_or_default();
            let name = node.name.clone();
            by_name.insert(name, bindings.add(BindingNode { node, allocatable, pods }));
        }
        bindings.prepare();
        Self { bindings, by_name, converted, waiting: Vec::new(), bound: Vec::new() }
    }
}
