//! Claims for devices (Dynamic Resource Allocation).
//!
//! Pods that claim the same devices are a kind. Each kind has a column behind the resources in rows of amounts
//! ([`ResourceIndex::columns`]): the number of its pods that get devices on a node, of which a pod takes one ([`Site::fit`]). With several
//! kinds, the devices of each driver have a column too. Without claims there are no columns, and nothing is computed.

use crate::constraints::LevelSpec;
use crate::dense::Amounts;
use crate::problem::reason::PodFault;
use crate::problem::{ClusterFacts, ExistingNode, PoolOffer, Problem};
use nodeless_devices::{
    DeviceRequests, Fit, Inventory, NodeSelector, Place, Refusal, ResourceClaim, Selectors, Site, Slice, Taken,
};
use nodeless_model::{InstanceType, Pod, Requirement, Requirements, ResourceIndex, StringMap, labels};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// In thousandths, as resources are.
const ONE: i64 = 1000;
/// More devices than any plan has.
const UNLIMITED: i64 = 1_000_000 * ONE;
/// The columns of kinds are named by this and their index, those of drivers by the other and the driver. No resource has such a name.
const KIND: &str = "pods with claims ";
const DRIVER: &str = "devices of ";
/// The work of counting the pods of a kind on a node or an instance type.
const WORK_PER_SITE: usize = 100;
/// The name of a node that is planned, for its slices.
const PLANNED: &str = "planned";

/// Whether a column is about claims.
pub(crate) fn is_column(name: &str) -> bool {
    name.starts_with(KIND) || name.starts_with(DRIVER)
}

/// What a claim of a pod needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Need<'a> {
    /// Devices, under the name that the pod has for the claim. `shared` is the ResourceClaim if it is not for this pod alone.
    Devices { name: &'a str, devices: &'a DeviceRequests, shared: Option<String> },
    /// The devices that the ResourceClaim has.
    Allocated { claim: String },
    /// An object that does not exist: its kind and name.
    Missing { kind: &'static str, name: String },
}

/// What the claims of a pod need.
///
/// A pod that runs and has to move is made again, and with it its claims from templates.
pub(crate) fn needs<'a>(pod: &'a Pod, facts: &ClusterFacts<'a>) -> Vec<Need<'a>> {
    let need = |claim: &'a nodeless_model::pod::ResourceClaim| {
        let key = |name: &str| format!("{}/{name}", pod.namespace);
        let known = claim.claim.as_ref().map(|name| (name, facts.devices.claims.get(&key(name))));
        match (known, &claim.template) {
            (Some((name, Some(state))), _) => {
                let is_made_again = state.is_of_pod && pod.node_name.is_some();
                if state.allocation.is_some() && !is_made_again {
                    return Need::Allocated { claim: key(name) };
                }
                let shared = (!state.is_of_pod).then(|| key(name));
                Need::Devices { name: &claim.name, devices: &state.devices, shared }
            }
            (_, Some(template)) => match facts.devices.templates.get(&key(template)) {
                Some(devices) => Need::Devices { name: &claim.name, devices, shared: None },
                None => Need::Missing { kind: "ResourceClaimTemplate", name: key(template) },
            },
            (Some((name, None)), None) => Need::Missing { kind: "ResourceClaim", name: key(name) },
            (None, None) => Need::Missing { kind: "ResourceClaim", name: key(&claim.name) },
        }
    };
    pod.template.resource_claims.iter().map(need).collect()
}

/// The claims for which devices have to be allocated.
fn kind_of(needs: &[Need<'_>]) -> Vec<ResourceClaim> {
    let claims = needs.iter().filter_map(|need| match need {
        Need::Devices { name, devices, .. } => {
            Some(ResourceClaim { name: (*name).to_owned(), devices: (*devices).clone() })
        }
        Need::Allocated { .. } | Need::Missing { .. } => None,
    });
    claims.collect()
}

/// The kinds of pods with claims, and how many of each a node of each instance type holds.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    kinds: Vec<Vec<ResourceClaim>>,
    of_type: HashMap<String, Fit>,
    /// For each kind, the most devices of each driver that a pod takes on a new node.
    takes: Vec<BTreeMap<String, u32>>,
    selectors: Selectors,
}

impl Claims {
    /// Of pods with claims, for which nodes of these NodePools may be launched.
    pub(crate) fn of(pods: &[&Pod], facts: &ClusterFacts<'_>, offers: &[&PoolOffer<'_>]) -> Self {
        let mut claims = Self::default();
        let mut kinds: BTreeSet<Vec<ResourceClaim>> = BTreeSet::new();
        for pod in pods {
            kinds.insert(kind_of(&needs(pod, facts)));
        }
        claims.kinds = kinds.into_iter().filter(|kind| !kind.is_empty()).collect();
        if claims.kinds.is_empty() {
            return claims;
        }
        for kind in offers.iter().flat_map(|offer| offer.instance_types.iter()) {
            if !claims.of_type.contains_key(&kind.name) {
                let fit = claims.on_type(kind, facts);
                claims.of_type.insert(kind.name.clone(), fit);
            }
        }
        claims.takes = vec![BTreeMap::new(); claims.kinds.len()];
        for fit in claims.of_type.values() {
            for (most, takes) in claims.takes.iter_mut().zip(&fit.takes) {
                for (driver, count) in takes {
                    let known = most.entry(driver.clone()).or_insert(0);
                    *known = (*known).max(*count);
                }
            }
        }
        claims
    }

    fn on_type(&self, kind: &InstanceType, facts: &ClusterFacts<'_>) -> Fit {
        let slices = facts.devices.predicted(kind, PLANNED);
        let labels = kind.requirements.single_values();
        // Devices that other nodes can use too are not certain to be for a node that is not launched yet.
        self.fit(&Inventory::new(&slices), (PLANNED, &labels), &Taken::default(), facts, None)
    }

    fn fit(
        &self,
        inventory: &Inventory<'_>,
        (name, labels): (&str, &StringMap),
        taken: &Taken,
        facts: &ClusterFacts<'_>,
        counted: Option<&[BTreeMap<String, u32>]>,
    ) -> Fit {
        let place = Place { name: Some(name), labels };
        let pools = match inventory.pools(&place) {
            Ok(pools) => pools,
            Err(error) => {
                let refused = || Err(Refusal::NodeSelector { message: error.to_string() });
                return Fit { times: self.kinds.iter().map(|_| refused()).collect(), ..Fit::default() };
            }
        };
        let classes = &facts.devices.classes;
        Site { place: &place, pools: &pools, classes, taken, selectors: &self.selectors }.fit(&self.kinds, counted)
    }

    /// The work of counting pods on this many nodes.
    pub(crate) fn work_on(&self, nodes: usize) -> usize {
        nodes * self.kinds.len() * WORK_PER_SITE
    }

    /// The work of counting pods on instance types.
    pub(crate) fn work(&self) -> usize {
        self.work_on(self.of_type.len())
    }

    /// The columns of kinds, and with several kinds those of the drivers of instance types.
    pub(crate) fn columns(&self) -> Vec<String> {
        let kinds = (0..self.kinds.len()).map(|kind| format!("{KIND}{kind}"));
        let takes = self.takes.iter().filter(|_| self.kinds.len() > 1);
        let drivers: BTreeSet<&String> = takes.flat_map(BTreeMap::keys).collect();
        kinds.chain(drivers.into_iter().map(|driver| format!("{DRIVER}{driver}"))).collect()
    }

    /// Sets in a row of amounts how many pods of each kind a new node of this type holds.
    pub(crate) fn set_limits(&self, amounts: &mut Amounts, kind: &InstanceType, resources: &ResourceIndex) {
        if let Some(fit) = self.of_type.get(&kind.name) {
            set(amounts, fit, resources);
        }
    }

    /// Sets how many pods of each kind existing nodes hold. Returns nothing for nodes without claims to count.
    pub(crate) fn on_nodes<'n>(
        &self,
        problem: &Problem<'_>,
        resources: &ResourceIndex,
        nodes: impl Iterator<Item = (&'n ExistingNode, &'n mut Amounts)>,
    ) {
        if self.kinds.is_empty() {
            return;
        }
        let facts = &problem.facts;
        let (inventory, taken) = (Inventory::new(&facts.devices.slices), facts.devices.taken());
        let pending: HashSet<String> = problem.pods.iter().map(|pod| pod.key()).collect();
        for (node, amounts) in nodes {
            let awaits = !node.initialized || node.nominated.iter().any(|pod| pending.contains(pod));
            let expected = if awaits { expected(problem, node, &inventory) } else { Vec::new() };
            let labels = node.requirements.single_values();
            let at = (node.name.as_str(), &labels);
            let fit = if expected.is_empty() {
                self.fit(&inventory, at, &taken, facts, Some(&self.takes))
            } else {
                let slices = inventory.usable_by(&node.name).chain(&expected);
                self.fit(&Inventory::new(slices), at, &taken, facts, Some(&self.takes))
            };
            set(amounts, &fit, resources);
        }
    }

    /// What pods of a class take, with where devices that they have already hold them.
    ///
    /// # Errors
    /// Why no node can run them.
    pub(crate) fn request(
        &self,
        (problem, pods): (&Problem<'_>, usize),
        needs: &[Need<'_>],
        resources: &ResourceIndex,
        amounts: &mut Amounts,
    ) -> Result<Vec<Requirements>, PodFault> {
        let mut pins = Vec::new();
        for need in needs {
            match need {
                Need::Missing { kind, name } => {
                    return Err(PodFault::Claim { message: format!("{kind} {name} does not exist") });
                }
                Need::Allocated { claim } => pins.extend(pin(problem, claim)?),
                Need::Devices { shared: None, .. } => {}
                Need::Devices { shared: Some(claim), .. } => {
                    let users = problem.pods.iter().filter(|pod| refers_to(pod, claim)).count();
                    if users > 1 || pods > 1 {
                        let message = format!(
                            "ResourceClaim {claim} has no devices yet, and {users} pods wait for it, which is not supported; use a ResourceClaimTemplate, or schedule one of the pods first"
                        );
                        return Err(PodFault::Claim { message });
                    }
                }
            }
        }
        let kind = kind_of(needs);
        if kind.is_empty() {
            return Ok(pins);
        }
        let unknown = || PodFault::Claim { message: "its claims are not known to the plan".to_owned() };
        let index = self.kinds.binary_search(&kind).map_err(|_| unknown())?;
        let place = resources.place(&format!("{KIND}{index}")).ok_or_else(unknown)?;
        amounts[place] += ONE;
        for (place, name) in resources.columns() {
            if let Some(driver) = name.strip_prefix(DRIVER) {
                let takes = self.takes.get(index).and_then(|takes| takes.get(driver));
                amounts[place] += takes.map_or(0, |count| i64::from(*count) * ONE);
            }
        }
        Ok(pins)
    }

    /// Why nodes of these types hold no pod that needs this, if that is why.
    pub(crate) fn refusal<'t>(
        &self,
        needs: &[Need<'_>],
        types: impl Iterator<Item = &'t InstanceType>,
    ) -> Option<String> {
        let index = self.kinds.binary_search(&kind_of(needs)).ok()?;
        let mut refusals: Vec<&Refusal> = Vec::new();
        for kind in types {
            match self.of_type.get(&kind.name)?.times.get(index)? {
                Ok(_) => return None,
                Err(refusal) => refusals.push(refusal),
            }
        }
        // Most types have no such device at all, which explains less than what one with such devices lacks.
        let explains = |refusal: &&&Refusal| !matches!(refusal, Refusal::NoDevice { .. });
        refusals.iter().find(explains).or(refusals.first()).map(|refusal| refusal.to_string())
    }
}

fn refers_to(pod: &Pod, claim: &str) -> bool {
    pod.template
        .resource_claims
        .iter()
        .filter_map(|own| own.claim.as_ref())
        .any(|name| claim.strip_prefix(&pod.namespace).and_then(|rest| rest.strip_prefix('/')) == Some(name.as_str()))
}

fn set(amounts: &mut Amounts, fit: &Fit, resources: &ResourceIndex) {
    for (place, name) in resources.columns() {
        if let Some(kind) = name.strip_prefix(KIND).and_then(|kind| kind.parse::<usize>().ok()) {
            let times = fit.times.get(kind).and_then(|times| times.as_ref().ok()).copied();
            amounts[place] = i64::from(times.unwrap_or(0)) * ONE;
        } else if let Some(driver) = name.strip_prefix(DRIVER) {
            amounts[place] = fit.free.get(driver).map_or(UNLIMITED, |free| i64::from(*free) * ONE);
        }
    }
}

/// The slices that a node is expected to publish, of drivers that have published none of it.
fn expected(problem: &Problem<'_>, node: &ExistingNode, inventory: &Inventory<'_>) -> Vec<Slice> {
    let Some(name) = node.requirements.get(labels::INSTANCE_TYPE).and_then(Requirement::single) else {
        return Vec::new();
    };
    let mut types = problem.node_pools.iter().flat_map(|offer| offer.instance_types.iter());
    let Some(kind) = types.find(|kind| kind.name == name) else { return Vec::new() };
    let present: HashSet<&str> = inventory.local_to(&node.name).map(|slice| slice.spec.driver.as_str()).collect();
    let mut slices = problem.facts.devices.predicted(kind, &node.name);
    slices.retain(|slice| !present.contains(slice.spec.driver.as_str()));
    slices
}

/// The node labels that the devices of a claim require.
fn pin(problem: &Problem<'_>, claim: &str) -> Result<Option<Requirements>, PodFault> {
    let allocation = problem.facts.devices.claims.get(claim).and_then(|state| state.allocation.as_ref());
    let Some(selector) = allocation.and_then(|allocation| allocation.node_selector.as_ref()) else { return Ok(None) };
    let fault = |why: &str| PodFault::Claim { message: format!("ResourceClaim {claim} has devices {why}") };
    let [term] = &selector.node_selector_terms[..] else {
        return Err(fault("for nodes of several kinds, which is not supported"));
    };
    let mut required = Requirements::from_terms(&term.match_expressions)
        .map_err(|error| fault(&format!("whose nodes are unknown: {error}")))?;
    if let Some(name) = single_node(selector) {
        let node = problem.nodes.iter().find(|node| node.name == name);
        let node = node.ok_or_else(|| fault(&format!("on node {name}, which takes no pods")))?;
        let host = node.requirements.get(labels::HOSTNAME).and_then(Requirement::single).unwrap_or(name);
        required.add(labels::HOSTNAME, Requirement::one_of([host]));
    }
    Ok(Some(required))
}

/// The node that a selector names.
fn single_node(selector: &NodeSelector) -> Option<&str> {
    let fields = &selector.node_selector_terms.first()?.match_fields;
    fields.first()?.values.first().map(String::as_str)
}

/// Levels with further required labels.
pub(crate) fn pinned(specs: Vec<LevelSpec>, pins: &[Requirements]) -> Result<Vec<LevelSpec>, PodFault> {
    if pins.is_empty() {
        return Ok(specs);
    }
    let pinned = |mut spec: LevelSpec| {
        let alternatives = spec.alternatives.iter().filter_map(|alternative| {
            let mut alternative = alternative.clone();
            for pin in pins {
                if !alternative.requirements.intersects(pin) {
                    return None;
                }
                alternative.requirements = alternative.requirements.with(pin);
            }
            Some(alternative)
        });
        spec.alternatives = alternatives.collect();
        spec
    };
    let mut levels: Vec<LevelSpec> = specs.into_iter().map(pinned).collect();
    levels.retain(|level| !level.alternatives.is_empty());
    if levels.is_empty() {
        let message = "the nodes that can use the devices of its claims do not have the labels that it requires";
        return Err(PodFault::Claim { message: message.to_owned() });
    }
    Ok(levels)
}
