//! Claims for devices (Dynamic Resource Allocation).
//!
//! Pods that claim the same devices are a kind. Each kind has a column behind the resources in rows of amounts
//! ([`ResourceIndex::columns`]): the number of its pods that get devices on a node, of which a pod takes one ([`Site::fit`]). With several
//! kinds, the devices of each driver have a column too. Without claims there are no columns, and nothing is computed.

mod offered;
mod pins;
mod together;

pub(crate) use pins::pinned;
pub(crate) use together::Together;
pub use together::claimed_drivers;

use crate::claim_needs::{Need, Shared, claims_of, kind_of, needs, objects_of};
use crate::constraints::{Alternative, LevelSpec};
use crate::dense::Amounts;
use crate::problem::reason::{Cause, PodFault};
use crate::problem::{ClusterFacts, ExistingNode, PoolOffer, Problem};
use nodeless_devices::{
    Attempts, DeviceRequests, Fit, Inventory, Place, PodClaims, Refusal, ResourceClaim, Selectors, Site, Slice, Taken,
};
use nodeless_model::hashed::{HashMap, HashSet};
use nodeless_model::{InstanceType, Pod, Requirement, Requirements, ResourceIndex, StringMap, labels};
use offered::offered;
use pins::{host_name, narrowed, pin};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// In thousandths, as resources are.
const ONE: i64 = 1000;
/// More devices than any plan has.
const UNLIMITED: i64 = 1_000_000 * ONE;
/// The columns of kinds are named by this and their index, those of drivers by the other and the driver. No resource has such a name.
const KIND: &str = "pods with claims ";
const DRIVER: &str = "devices of ";
/// The work of counting the pods of a kind on a node or an instance type, beside the attempts to find devices.
const WORK_PER_SITE: usize = 20;
/// The attempts to find devices for each kind of pods, on all nodes or all instance types: this number, and more for each device there.
/// Ordinary claims take some tens for a device. Pods of a kind that takes more are left out.
const ATTEMPTS: u64 = 200_000;
const ATTEMPTS_PER_DEVICE: u64 = 50;
/// The attempts of all kinds together, some seconds: so many kinds that each would take its part share them evenly.
const ATTEMPTS_OF_ALL: u64 = 40_000_000;
/// The name of a node that is planned, for its slices.
const PLANNED: &str = "planned";

/// Whether a column is about claims.
pub(crate) fn is_column(name: &str) -> bool {
    name.starts_with(KIND) || name.starts_with(DRIVER)
}

/// The kinds of pods with claims, and how many of each a node of each instance type holds.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    kinds: Vec<Vec<ResourceClaim>>,
    of_type: HashMap<String, Rc<Fit>>,
    /// For each kind, the most devices of each driver that a pod takes on a new node.
    takes: Vec<BTreeMap<String, u32>>,
    /// For each kind, the instance types that have the first alternatives of its requests, and then those that have the next ones too;
    /// without the last, which are all that have devices for it.
    preferred: Vec<Vec<BTreeSet<String>>>,
    selectors: Selectors,
    /// Whether a kind may claim devices of `dra.net`.
    names_network: bool,
    /// What it took to count them on instance types.
    counted: Counted,
}

/// What it took to count pods with claims.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) work: usize,
    /// The kinds of pods that took too many attempts.
    costly: BTreeMap<usize, Refusal>,
}

impl Counted {
    /// Of these kinds on a number of nodes or instance types.
    fn new(kinds: &[PodClaims<'_>], sites: usize) -> Self {
        let made = kinds.iter().map(|kind| kind.attempts.made()).sum::<u64>();
        let costly = kinds
            .iter()
            .enumerate()
            .filter_map(|(index, kind)| Some((index, Refusal::TooManyAttempts { limit: kind.attempts.exceeded()? })));
        let work = usize::try_from(made).unwrap_or(usize::MAX);
        Self { work: work.saturating_add(sites * kinds.len() * WORK_PER_SITE), costly: costly.collect() }
    }

    fn fault(&self, kind: usize) -> Option<PodFault> {
        self.costly.get(&kind).map(|refusal| PodFault::Claim { message: refusal.to_string() })
    }
}

impl Claims {
    /// Of pods with claims, for which nodes of these NodePools may be launched.
    pub(crate) fn new(pods: &[&Pod], facts: &ClusterFacts<'_>, offers: &[&PoolOffer<'_>]) -> Self {
        let (mut kinds, mut seen) = (BTreeSet::new(), HashSet::default());
        for needs in pods.iter().map(|pod| needs(pod, facts)) {
            if seen.insert(objects_of(&needs)) {
                kinds.insert(kind_of(&needs));
            }
        }
        let kinds = kinds.into_iter().filter(|kind: &Vec<ResourceClaim>| !kind.is_empty()).collect();
        let mut claims = Self { kinds, ..Self::default() };
        let mut each = claims.kinds.iter().flatten();
        claims.names_network = each.any(|claim| claim.names_network(&facts.devices.classes));
        if claims.kinds.is_empty() {
            return claims;
        }
        let mut types: BTreeMap<&str, &InstanceType> = BTreeMap::new();
        for kind in offers.iter().flat_map(|offer| offer.instance_types.iter()) {
            types.entry(&kind.name).or_insert(kind);
        }
        (claims.of_type, claims.counted) = claims.on_types(&types, facts);
        claims.takes = vec![BTreeMap::new(); claims.kinds.len()];
        for fit in claims.of_type.values() {
            for (most, takes) in claims.takes.iter_mut().zip(&fit.takes) {
                for (driver, count) in takes {
                    let known = most.entry(driver.clone()).or_insert(0);
                    *known = (*known).max(*count);
                }
            }
        }
        claims.preferred = (0..claims.kinds.len()).map(|kind| claims.preferred_types(kind)).collect();
        claims
    }

    fn preferred_types(&self, kind: usize) -> Vec<BTreeSet<String>> {
        let mut by_alternatives: BTreeMap<&[usize], BTreeSet<String>> = BTreeMap::new();
        for (name, fit) in &self.of_type {
            if let (Some(Ok(_)), Some(alternatives)) = (fit.times.get(kind), fit.alternatives.get(kind)) {
                by_alternatives.entry(alternatives).or_default().insert(name.clone());
            }
        }
        let mut types = BTreeSet::new();
        let mut preferred: Vec<BTreeSet<String>> = Vec::new();
        for of_alternatives in by_alternatives.into_values() {
            types.extend(of_alternatives);
            preferred.push(types.clone());
        }
        preferred.pop();
        preferred
    }

    /// Levels with the order of the alternatives of claims: new nodes have the first that any instance type has, and the next only where
    /// the pod then gets no node. Pods use what an existing node has, because the kube-scheduler binds them there at once.
    pub(crate) fn in_order(&self, problem: &Problem<'_>, needs: &[Need<'_>], specs: Vec<LevelSpec>) -> Vec<LevelSpec> {
        let preferred = self.kind(needs).and_then(|kind| self.preferred.get(kind)).map_or(&[][..], Vec::as_slice);
        if preferred.is_empty() {
            return specs;
        }
        let hosts = problem.nodes.iter().map(host_name);
        let on_existing = Requirements::from([(labels::HOSTNAME, Requirement::one_of(hosts))]);
        let mut ordered = Vec::with_capacity(specs.len() * (preferred.len() + 1));
        for spec in specs {
            for types in preferred {
                let on_new = Requirements::from([(
                    labels::INSTANCE_TYPE,
                    Requirement::one_of(types.iter().map(String::as_str)),
                )]);
                let nodes = if problem.nodes.is_empty() { vec![&on_new] } else { vec![&on_existing, &on_new] };
                let alternatives: Rc<[Alternative]> =
                    nodes.into_iter().flat_map(|pin| narrowed(&spec.alternatives, std::slice::from_ref(pin))).collect();
                if !alternatives.is_empty() {
                    ordered.push(LevelSpec { alternatives, groups: spec.groups.clone() });
                }
            }
            ordered.push(spec);
        }
        ordered
    }

    /// How many pods of each kind a new node of each type holds. Types with the same devices share a search.
    fn on_types(
        &self,
        types: &BTreeMap<&str, &InstanceType>,
        facts: &ClusterFacts<'_>,
    ) -> (HashMap<String, Rc<Fit>>, Counted) {
        let mut sites: Vec<(Vec<Slice>, Vec<&str>)> = Vec::new();
        for (name, kind) in types {
            let slices = facts.devices.predicted_with_network(kind, PLANNED, self.names_network);
            match sites.iter_mut().find(|(known, _)| *known == slices) {
                Some((_, names)) => names.push(name),
                None => sites.push((slices, vec![name])),
            }
        }
        let devices = sites.iter().flat_map(|(slices, _)| slices).map(|slice| slice.spec.devices.len()).sum();
        let mut kinds = self.searches(facts, devices, &vec![u32::MAX; self.kinds.len()]);
        let mut of_type = HashMap::default();
        let place = Place { name: Some(PLANNED), labels: &StringMap::new() };
        for (slices, names) in &sites {
            // Devices that other nodes can use too are not certain to be for a node that is not launched yet.
            let (inventory, taken) = (Inventory::new(slices), Taken::default());
            let fit = Rc::new(fit(&mut kinds, &inventory, &place, &taken, None));
            of_type.extend(names.iter().map(|name| ((*name).to_owned(), Rc::clone(&fit))));
        }
        (of_type, Counted::new(&kinds, sites.len()))
    }

    /// The searches of all kinds where there are this many devices, for this many pods of each.
    fn searches<'c>(&'c self, facts: &ClusterFacts<'c>, devices: usize, pods: &[u32]) -> Vec<PodClaims<'c>> {
        let devices = u64::try_from(devices).unwrap_or(u64::MAX);
        let share = ATTEMPTS_OF_ALL / u64::try_from(self.kinds.len()).unwrap_or(u64::MAX).max(1);
        let attempts =
            Attempts::at_most(devices.saturating_mul(ATTEMPTS_PER_DEVICE).saturating_add(ATTEMPTS).min(share));
        let kinds = self.kinds.iter().zip(pods).enumerate();
        kinds
            .map(|(index, (claims, pods))| {
                let attempts = if self.counted.costly.contains_key(&index) { Attempts::at_most(0) } else { attempts };
                PodClaims::new(claims, &facts.devices.classes, &self.selectors, *pods, attempts)
            })
            .collect()
    }

    /// The work of counting pods on instance types.
    pub(crate) const fn work(&self) -> usize {
        self.counted.work
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

    /// Sets how many pods of each kind existing nodes hold.
    pub(crate) fn on_nodes<'n>(
        &self,
        problem: &Problem<'_>,
        resources: &ResourceIndex,
        nodes: impl ExactSizeIterator<Item = (&'n ExistingNode, &'n mut Amounts)>,
    ) -> Counted {
        if self.kinds.is_empty() {
            return Counted::default();
        }
        let facts = &problem.facts;
        let (inventory, taken) = (Inventory::new(&facts.devices.slices), facts.devices.taken());
        let pending: HashSet<String> = problem.pods.iter().map(|pod| pod.key()).collect();
        let (sites, devices) = (nodes.len(), inventory.devices_on(nodes.len()));
        let mut kinds = self.searches(facts, devices, &self.pods_of_kinds(problem));
        for (node, amounts) in nodes {
            let awaits = !node.initialized || node.nominated.iter().any(|pod| pending.contains(pod));
            let expected = if awaits { expected(problem, node, &inventory, self.names_network) } else { Vec::new() };
            let labels = node.requirements.single_values();
            let place = Place { name: Some(&node.name), labels: &labels };
            let fit = if expected.is_empty() {
                fit(&mut kinds, &inventory, &place, &taken, Some(&self.takes))
            } else {
                let slices = inventory.usable_by(&node.name).chain(&expected);
                fit(&mut kinds, &Inventory::new(slices), &place, &taken, Some(&self.takes))
            };
            set(amounts, &fit, resources);
        }
        let counted = Counted::new(&kinds, sites);
        Counted { work: counted.work.saturating_add(devices), ..counted }
    }

    /// The number of pods of each kind.
    fn pods_of_kinds(&self, problem: &Problem<'_>) -> Vec<u32> {
        let mut pods = vec![0_u32; self.kinds.len()];
        let mut known: HashMap<Vec<*const DeviceRequests>, Option<usize>> = HashMap::default();
        for pod in problem.pods.iter().filter(|pod| !pod.template.resource_claims.is_empty()) {
            let needs = needs(pod, &problem.facts);
            if let Some(kind) = *known.entry(objects_of(&needs)).or_insert_with(|| self.kind(&needs)) {
                pods[kind] = pods[kind].saturating_add(1);
            }
        }
        pods
    }

    /// The kind of pods that need this; `None` if they need no devices, or are of no kind of this plan.
    fn kind(&self, needs: &[Need<'_>]) -> Option<usize> {
        self.kinds.binary_search(&kind_of(needs)).ok()
    }

    /// Why pods are left out: it took too many attempts to count them on existing nodes.
    pub(crate) fn fault(&self, counted: &Counted, pod: &Pod, facts: &ClusterFacts<'_>) -> Option<PodFault> {
        if counted.costly.is_empty() || pod.template.resource_claims.is_empty() {
            return None;
        }
        counted.fault(self.kind(&needs(pod, facts))?)
    }

    /// What pods of a class take, with where devices that they have already hold them.
    ///
    /// # Errors
    /// Why no node can run them.
    pub(crate) fn request(
        &self,
        problem: &Problem<'_>,
        shared: &Shared<'_>,
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
                Need::Devices { .. } => {}
            }
        }
        let sharing = sharing(needs, shared)?;
        let kind = kind_of(needs);
        if kind.is_empty() {
            return Ok(pins);
        }
        let unknown = || PodFault::Claim { message: "its claims are not known to the plan".to_owned() };
        let index = self.kinds.binary_search(&kind).map_err(|_| unknown())?;
        if let Some(fault) = self.counted.fault(index) {
            return Err(fault);
        }
        let place = resources.place(&format!("{KIND}{index}")).ok_or_else(unknown)?;
        // The parts of all pods that share a claim are the devices of one. Rounding down lets no more pods on a node, because the parts
        // that are lost are less than a thousandth for each pod.
        let part = |amount: i64| (amount / sharing).max(1);
        amounts[place] += part(ONE);
        for (place, name) in resources.columns() {
            if let Some(driver) = name.strip_prefix(DRIVER) {
                let takes = self.takes.get(index).and_then(|takes| takes.get(driver));
                amounts[place] += takes.map_or(0, |count| part(i64::from(*count) * ONE));
            }
        }
        Ok(pins)
    }

    /// Why nodes of these types hold no pod that needs this, if that is why.
    pub(crate) fn refusal<'t>(
        &self,
        needs: &[Need<'_>],
        types: impl Iterator<Item = &'t InstanceType>,
        facts: &ClusterFacts<'_>,
    ) -> Option<Cause> {
        let index = self.kind(needs)?;
        let mut refused: Vec<(&InstanceType, &Refusal)> = Vec::new();
        for kind in types {
            match self.of_type.get(&kind.name)?.times.get(index)? {
                Ok(_) => return None,
                Err(refusal) => refused.push((kind, refusal)),
            }
        }
        // Most types have no such device at all, which explains less than what one with such devices lacks.
        let explains = |(_, refusal): &&(&InstanceType, &Refusal)| !matches!(refusal, Refusal::NoDevice { .. });
        let (kind, _) = refused.iter().find(explains).or(refused.first())?;
        // The names of the pod's claims, which other pods of the kind do not have.
        let (claims, slices) =
            (claims_of(needs), facts.devices.predicted_with_network(kind, PLANNED, self.names_network));
        let attempts = Attempts::at_most(ATTEMPTS);
        let mut named = [PodClaims::new(&claims, &facts.devices.classes, &self.selectors, 1, attempts)];
        let place = Place { name: Some(PLANNED), labels: &StringMap::new() };
        let mut alone = fit(&mut named, &Inventory::new(&slices), &place, &Taken::default(), None);
        let competes = || Refusal::Competes { claim: claims.first().map_or_else(String::new, |it| it.name.clone()) };
        let message = alone.times.pop()?.err().unwrap_or_else(competes).to_string();
        let types: Vec<&InstanceType> = refused.iter().map(|(kind, _)| *kind).collect();
        Some(Cause::Devices { message, offered: offered(&claims, &types, facts.devices) })
    }
}

/// The number of pods that share the claim of a pod for devices.
///
/// # Errors
/// Where the pod claims other devices too: the parts that the pods take of a node then differ.
fn sharing(needs: &[Need<'_>], all: &Shared<'_>) -> Result<i64, PodFault> {
    let claims = needs.iter().filter_map(|need| match need {
        Need::Devices { shared, .. } => Some(shared.as_ref()),
        Need::Allocated { .. } | Need::Missing { .. } => None,
    });
    let of_claim = |claim: Option<&String>| claim.and_then(|claim| all.get(&claim.split_once('/')?)).copied();
    let pods: Vec<Option<usize>> = claims.map(of_claim).collect();
    match &pods[..] {
        [Some(pods)] => Ok(i64::try_from(*pods).unwrap_or(i64::MAX)),
        several if several.iter().all(Option::is_none) => Ok(1),
        _ => {
            let message = "several pods wait for one of its ResourceClaims, and it claims other devices too, which is not supported; put all requests into one claim, or schedule one of the pods first";
            Err(PodFault::Claim { message: message.to_owned() })
        }
    }
}

/// How many pods of each kind a node with these slices holds.
fn fit(
    kinds: &mut [PodClaims<'_>],
    inventory: &Inventory<'_>,
    place: &Place<'_>,
    taken: &Taken,
    counted: Option<&[BTreeMap<String, u32>]>,
) -> Fit {
    match inventory.pools(place) {
        Ok(pools) => Site { place, pools: &pools, taken }.fit(kinds, counted),
        Err(error) => {
            let refused = || Err(Refusal::NodeSelector { message: error.to_string() });
            Fit { times: kinds.iter().map(|_| refused()).collect(), ..Fit::default() }
        }
    }
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
fn expected(problem: &Problem<'_>, node: &ExistingNode, inventory: &Inventory<'_>, names_network: bool) -> Vec<Slice> {
    let Some(name) = node.requirements.get(labels::INSTANCE_TYPE).and_then(Requirement::single) else {
        return Vec::new();
    };
    let mut types = problem.node_pools.iter().flat_map(|offer| offer.instance_types.iter());
    let Some(kind) = types.find(|kind| kind.name == name) else { return Vec::new() };
    let present: HashSet<&str> = inventory.local_to(&node.name).map(|slice| slice.spec.driver.as_str()).collect();
    let mut slices = problem.facts.devices.predicted_with_network(kind, &node.name, names_network);
    slices.retain(|slice| !present.contains(slice.spec.driver.as_str()));
    slices
}
