//! The request of one CreateFleet call, decided from the candidates: capacity type, instance types, subnets.

use crate::kubelet_values;
use crate::shortage::lacks_capacity;
use crate::template::{EFA_RESOURCE, Market, Variant};
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::{Ami, Subnet};
use nodeless_model::instance::{LaunchCandidate, LaunchOutcome, OfferingFailure};
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{CapacityType, NodeClaim, Operator, Requirements, labels};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// EC2 considers at most this number of instance types well; Karpenter truncates its list at the same number.
const MAXIMUM_TYPES: usize = 60;
/// The maximum number of launch templates in a fleet.
const MAX_LAUNCH_TEMPLATES: usize = 50;

/// A call of CreateFleet.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetPlan {
    /// The capacity type: the first of reserved, spot and on-demand that has a candidate.
    pub capacity_type: CapacityType,
    /// The market type of the capacity reservation, if it has one of its own.
    pub market: Option<Market>,
    /// Whether EC2 uses the prices of the request instead of its own, because a NodeOverlay changed them.
    pub prioritized: bool,
    /// Whether EC2 launches all instances or none: <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_OnDemandOptionsRequest.html>
    /// requires a single zone or instance type for it, and knows it for on-demand and spot instances.
    pub all_or_none: bool,
    /// The id of the placement group.
    pub placement_group: Option<String>,
    /// `spec.context` of the class. As in Karpenter, none if `minValues` were relaxed for the launch.
    pub context: Option<String>,
    /// The offerings of each launch template, cheapest first.
    pub groups: BTreeMap<Variant, Vec<FleetOverride>>,
    /// The instance types of the launch templates that exceed the maximum.
    pub left_out: BTreeSet<String>,
}

/// An instance type in a subnet.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetOverride {
    /// The instance type.
    pub instance_type: String,
    /// The zone, by name.
    pub zone: String,
    /// The subnet.
    pub subnet_id: String,
    /// Dollars per hour.
    pub price: f64,
}

/// Why nothing can be requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// No candidates at all.
    #[error("no offering is available for this launch")]
    NoCandidates,
    /// No AMI matches.
    #[error(
        "EC2NodeClass {class}: none of its {images} AMIs fits {instance_type} ({architecture}); change spec.amiSelectorTerms \
         or the NodePool's requirements"
    )]
    NoImage {
        /// The class.
        class: String,
        /// The number of its AMIs.
        images: usize,
        /// A requested instance type.
        instance_type: String,
        /// The architecture.
        architecture: String,
    },
    /// No subnet matches.
    #[error("EC2NodeClass {class}: no subnet in any of the zones {zones}; change spec.subnetSelectorTerms")]
    NoSubnet {
        /// The class.
        class: String,
        /// The requested zones.
        zones: String,
    },
}

/// The driver of network devices. Claims for its devices get EFA interfaces, because without them it publishes no device that a plan
/// expects.
const NETWORK_DRIVER: &str = "dra.net";

fn claims_efa(claim: &NodeClaim) -> bool {
    let drivers = claim.spec.annotations.get(labels::DRA_DRIVERS);
    drivers.is_some_and(|drivers| drivers.split(',').any(|driver| driver.trim() == NETWORK_DRIVER))
}

/// Decides the request.
///
/// # Errors
/// See [`FleetError`]: what is missing in the class for each of the candidates.
pub fn plan(class: &EC2NodeClass, claim: &NodeClaim, candidates: &[LaunchCandidate]) -> Result<FleetPlan, FleetError> {
    let name = || class.metadata.name.clone().unwrap_or_default();
    let status = class.status.clone().unwrap_or_default();
    let wants_efa = claim.spec.requests.contains(EFA_RESOURCE) || claims_efa(claim);
    let own_interfaces = !class.spec.network_interfaces.is_empty();
    let candidates: Vec<&LaunchCandidate> =
        candidates.iter().filter(|candidate| !wants_efa || candidate.efa_interfaces > 0).collect();
    let chosen = choose(&candidates, &MinValues::new(claim));
    let first = *chosen.first().ok_or(FleetError::NoCandidates)?;

    let in_a_subnet: Vec<(&LaunchCandidate, &Subnet)> =
        chosen.iter().filter_map(|&candidate| Some((candidate, subnet(&status.subnets, &candidate.zone)?))).collect();
    if in_a_subnet.is_empty() {
        let zones: BTreeSet<&str> = chosen.iter().map(|candidate| candidate.zone.as_str()).collect();
        return Err(FleetError::NoSubnet { class: name(), zones: zones.into_iter().collect::<Vec<_>>().join(", ") });
    }

    let expressions = kubelet_values::expressions(&class.spec);
    let mut groups: BTreeMap<Variant, Vec<FleetOverride>> = BTreeMap::new();
    for (candidate, subnet) in in_a_subnet {
        let Some(image) = status.amis.iter().find(|image| fits(image, candidate)) else { continue };
        let variant = Variant {
            image_id: image.id.clone(),
            max_pods: candidate.max_pods,
            reserved: kubelet_values::values(&expressions, candidate),
            reservation_id: candidate.reservation_id.clone(),
            partition: candidate.partition,
            market: market(candidate),
            efa_interfaces: if wants_efa && !own_interfaces { candidate.efa_interfaces } else { 0 },
            root_volume_gib: candidate.root_volume_gib,
        };
        groups.entry(variant).or_default().push(FleetOverride {
            instance_type: candidate.instance_type.clone(),
            zone: candidate.zone.clone(),
            subnet_id: subnet.id.clone(),
            price: candidate.price,
        });
    }
    if groups.is_empty() {
        return Err(FleetError::NoImage {
            class: name(),
            images: status.amis.len(),
            instance_type: first.instance_type.clone(),
            architecture: first.architecture.clone(),
        });
    }
    let left_out = leave_out_dearest(&mut groups);
    let market = market(first);
    Ok(FleetPlan {
        capacity_type: first.capacity_type,
        market,
        all_or_none: market.is_none() && has_to_be_whole(claim) && in_one_zone(&groups),
        placement_group: first.labels.get(labels::PLACEMENT_GROUP_ID).cloned(),
        context: class.spec.context.clone().filter(|_| !min_values_relaxed(claim)),
        prioritized: claim.spec.annotations.get(labels::PRICE_OVERLAY_APPLIED).is_some_and(|value| value == "true"),
        left_out,
        groups,
    })
}

fn has_to_be_whole(claim: &NodeClaim) -> bool {
    claim.spec.launch_group.as_ref().is_some_and(|group| group.all_or_none)
}

fn in_one_zone(groups: &BTreeMap<Variant, Vec<FleetOverride>>) -> bool {
    let zones: BTreeSet<&str> = groups.values().flatten().map(|entry| entry.zone.as_str()).collect();
    zones.len() == 1
}

/// Keeps the launch templates with the cheapest offerings, up to the maximum of a fleet. Returns the instance types of the
/// others.
fn leave_out_dearest(groups: &mut BTreeMap<Variant, Vec<FleetOverride>>) -> BTreeSet<String> {
    let cheapest = |entries: &[FleetOverride]| entries.iter().map(|entry| entry.price).fold(f64::INFINITY, f64::min);
    let mut by_price: Vec<(f64, Variant)> =
        groups.iter().map(|(variant, entries)| (cheapest(entries), variant.clone())).collect();
    by_price.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let dearest = by_price.split_off(by_price.len().min(MAX_LAUNCH_TEMPLATES));
    let left_out = dearest.iter().filter_map(|(_, variant)| groups.remove(variant)).flatten();
    left_out.map(|entry| entry.instance_type).collect()
}

/// The candidates of the instance types that are used in dry runs of the class: the cheapest with an image and a subnet, on
/// demand if possible, with accelerators only if no other type has both; then the same of another instance category or at least
/// another family, if there is one, because a policy may deny the first type and no other. Never spot: the dry run is of
/// RunInstances, which requests no spot instance, and EC2 rejects tags of a spot request without one.
///
/// # Errors
/// What the cheapest candidate lacks, if none has an image and a subnet.
pub fn samples(
    class: &EC2NodeClass,
    claim: &NodeClaim,
    candidates: &[LaunchCandidate],
) -> Result<Vec<Vec<LaunchCandidate>>, FleetError> {
    let kinds = [CapacityType::OnDemand, CapacityType::Reserved];
    let found = kinds.into_iter().find(|kind| candidates.iter().any(|candidate| candidate.capacity_type == *kind));
    let mut by_type: BTreeMap<&str, Vec<LaunchCandidate>> = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| Some(candidate.capacity_type) == found) {
        by_type.entry(&candidate.instance_type).or_default().push(candidate.clone());
    }
    let price = |of_type: &[LaunchCandidate]| of_type.iter().map(|it| it.price).fold(f64::INFINITY, f64::min);
    let mut types: Vec<(&str, Vec<LaunchCandidate>)> = by_type.into_iter().collect();
    types.sort_by(|(_, a), (_, b)| {
        let exotic = |of_type: &[LaunchCandidate]| of_type.first().is_some_and(is_exotic);
        exotic(a).cmp(&exotic(b)).then(price(a).total_cmp(&price(b)))
    });
    let mut lacks = None;
    let mut usable = |(_, of_type): &&(&str, Vec<LaunchCandidate>)| match plan(class, claim, of_type) {
        Ok(_) => true,
        Err(error) => {
            lacks.get_or_insert(error);
            false
        }
    };
    let Some((first, of_first)) = types.iter().find(&mut usable) else {
        return Err(lacks.unwrap_or(FleetError::NoCandidates));
    };
    let mut other = |part: fn(&str) -> &str| {
        types.iter().filter(|(name, _)| part(name) != part(first)).find(&mut usable).map(|(_, of_type)| of_type)
    };
    let second = other(category).or_else(|| other(family));
    Ok(std::iter::once(of_first).chain(second).cloned().collect())
}

/// The family of an instance type, such as `m5`.
fn family(instance_type: &str) -> &str {
    instance_type.split_once('.').map_or(instance_type, |(family, _)| family)
}

/// The category of an instance type, such as `m`.
fn category(instance_type: &str) -> &str {
    instance_type.split_once(|letter: char| letter.is_ascii_digit()).map_or(instance_type, |(category, _)| category)
}

/// The subnets of a class that share their zone with another one.
#[must_use]
pub fn subnets_to_choose_from(class: &EC2NodeClass) -> Vec<String> {
    let subnets = class.status.as_ref().map(|status| status.subnets.as_slice()).unwrap_or_default();
    let shares = |one: &&Subnet| subnets.iter().any(|other| other.zone == one.zone && other.id != one.id);
    subnets.iter().filter(shares).map(|subnet| subnet.id.clone()).collect()
}

/// The class with its subnets ordered by free addresses, the most first. Subnets with an unknown number keep their order after
/// those.
#[must_use]
pub fn most_free_first(class: &EC2NodeClass, free: &BTreeMap<String, i64>) -> EC2NodeClass {
    let mut class = class.clone();
    if let Some(status) = &mut class.status {
        status.subnets.sort_by_key(|subnet| Reverse(free.get(&subnet.id).copied().unwrap_or(i64::MIN)));
    }
    class
}

impl FleetPlan {
    /// The launch template variant of an instance type in a zone.
    #[must_use]
    pub fn used(&self, instance_type: &str, zone: &str) -> Option<&Variant> {
        let is = |entry: &FleetOverride| entry.instance_type == instance_type && entry.zone == zone;
        self.groups.iter().find(|(_, overrides)| overrides.iter().any(is)).map(|(variant, _)| variant)
    }

    /// The outcome of a call that EC2 rejected as a whole, if its code reports a lack of capacity: a failure of each offering
    /// that was requested. `None` for every other code.
    ///
    /// EC2 returns such codes for single offerings, in an answer, but for a quota of fleets it rejects the call, and it documents
    /// for no code that it does not. An error that names subnets of the plan is one of the offerings in these subnets.
    #[must_use]
    pub fn rejected(&self, code: &str, message: &str) -> Option<LaunchOutcome> {
        if !lacks_capacity(code) {
            return None;
        }
        let named = |entry: &&FleetOverride| message.contains(&format!("'{}'", entry.subnet_id));
        let names_subnets = self.groups.values().flatten().any(|entry| named(&entry));
        let mut seen = BTreeSet::new();
        let entries = self.groups.values().flatten().filter(|entry| !names_subnets || named(entry));
        let entries = entries.filter(|entry| seen.insert((&entry.instance_type, &entry.zone)));
        let failures = entries.map(|entry| self.failure(&entry.instance_type, &entry.zone, code, message));
        Some(LaunchOutcome { instances: Vec::new(), failures: failures.collect() })
    }

    /// The failure of an offering of the plan.
    #[must_use]
    pub fn failure(&self, instance_type: &str, zone: &str, code: &str, message: &str) -> OfferingFailure {
        OfferingFailure {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            capacity_type: self.capacity_type,
            code: code.to_owned(),
            message: message.to_owned(),
            lacks_capacity: lacks_capacity(code),
            placement_group: self.placement_group.clone(),
            partition: self.used(instance_type, zone).and_then(|variant| variant.partition),
            // A launch uses one reservation at most.
            reservation_id: self.groups.keys().find_map(|variant| variant.reservation_id.clone()),
        }
    }

    /// The zone of a subnet of the plan.
    #[must_use]
    pub fn zone_of_subnet(&self, subnet: &str) -> Option<&str> {
        self.groups.values().flatten().find(|entry| entry.subnet_id == subnet).map(|entry| entry.zone.as_str())
    }
}

/// The market type of the reservation of a candidate, if it has one of its own.
fn market(candidate: &LaunchCandidate) -> Option<Market> {
    let is = |key: &str, value: &str| candidate.labels.get(key).is_some_and(|of| of == value);
    if is(labels::CAPACITY_RESERVATION_TYPE, "capacity-block") {
        Some(Market::CapacityBlock)
    } else if is(labels::CAPACITY_RESERVATION_INTERRUPTIBLE, "true") {
        Some(Market::Interruptible)
    } else {
        None
    }
}

/// The keys with `minValues` in the claim's requirements, and the number of values that a launch must be able to choose from.
struct MinValues<'a>(Vec<(&'a str, usize)>);

impl<'a> MinValues<'a> {
    fn new(claim: &'a NodeClaim) -> Self {
        let asked = claim.spec.requirements.iter();
        let asked =
            asked.filter_map(|(key, one)| Some((key, usize::try_from(one.min_values()?).unwrap_or(usize::MAX))));
        Self(asked.collect())
    }

    const fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The first key with too few values among these candidates: the key, the required number, and the actual one.
    fn first_short(&self, candidates: &[&LaunchCandidate]) -> Option<(&'a str, usize, usize)> {
        self.0.iter().find_map(|(key, least)| {
            let values: BTreeSet<&str> = candidates.iter().filter_map(|candidate| value_of(candidate, key)).collect();
            (values.len() < *least).then_some((*key, *least, values.len()))
        })
    }
}

/// The value of a label of a candidate.
fn value_of<'c>(candidate: &'c LaunchCandidate, key: &str) -> Option<&'c str> {
    match key {
        labels::INSTANCE_TYPE => Some(&candidate.instance_type),
        labels::ZONE => Some(&candidate.zone),
        labels::CAPACITY_TYPE => Some(candidate.capacity_type.as_str()),
        labels::ARCH => Some(&candidate.architecture),
        key => candidate.labels.get(key).map(String::as_str),
    }
}

/// Why a claim must not be launched from the available offerings, if they do not satisfy its `minValues`. A claim whose
/// `minValues` were relaxed when it was planned may be launched.
#[must_use]
pub fn min_values_missed(claim: &NodeClaim, candidates: &[LaunchCandidate]) -> Option<String> {
    if min_values_relaxed(claim) {
        return None;
    }
    let all: Vec<&LaunchCandidate> = candidates.iter().collect();
    let (key, least, found) = MinValues::new(claim).first_short(&all)?;
    Some(format!("minValues requires {least} values of {key}, and the available offerings have {found}"))
}

fn min_values_relaxed(claim: &NodeClaim) -> bool {
    claim.spec.annotations.get(labels::MIN_VALUES_RELAXED).is_some_and(|value| value == "true")
}

/// The candidates of one capacity type, cheapest first, truncated to what EC2 considers.
///
/// With `minValues`, expensive and special types are kept, as in Karpenter, because `minValues` requires a choice of types.
/// The list is as long as `minValues` requires.
fn choose<'a>(candidates: &[&'a LaunchCandidate], min_values: &MinValues<'_>) -> Vec<&'a LaunchCandidate> {
    let of = |kind| candidates.iter().copied().filter(move |candidate| candidate.capacity_type == kind);
    let kinds = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
    let Some(kind) = kinds.into_iter().find(|kind| of(*kind).next().is_some()) else { return Vec::new() };
    let mut chosen: Vec<&LaunchCandidate> = of(kind).collect();
    if kind == CapacityType::Reserved {
        // A template targets one reservation, so a launch into one must not be spread over several.
        chosen.sort_by(|a, b| a.price.total_cmp(&b.price).then(market(a).cmp(&market(b))).then_with(|| by_price(a, b)));
        let reservation = chosen.first().and_then(|first| first.reservation_id.clone());
        chosen.retain(|candidate| candidate.reservation_id == reservation);
        // A capacity block is one type in one zone.
        if chosen.first().is_some_and(|first| market(first) == Some(Market::CapacityBlock)) {
            chosen.truncate(1);
        }
    }
    if min_values.are_none()
        && kind == CapacityType::Spot
        && let Some(on_demand) = of(CapacityType::OnDemand).map(|candidate| candidate.price).min_by(f64::total_cmp)
        && chosen.iter().any(|candidate| candidate.price <= on_demand)
    {
        // Spot that costs more than on-demand has only disadvantages.
        chosen.retain(|candidate| candidate.price <= on_demand);
    }
    if min_values.are_none() && chosen.iter().any(|candidate| !is_exotic(candidate)) {
        chosen.retain(|candidate| !is_exotic(candidate));
    }
    chosen.sort_by(|a, b| by_price(a, b));
    let mut types: Vec<&str> = Vec::new();
    for candidate in &chosen {
        if !types.contains(&candidate.instance_type.as_str()) {
            types.push(&candidate.instance_type);
        }
    }
    let of_types = |most: usize| {
        let kept = types.get(..most).unwrap_or(&types);
        chosen.iter().copied().filter(|candidate| kept.contains(&candidate.instance_type.as_str())).collect::<Vec<_>>()
    };
    let mut most = MAXIMUM_TYPES;
    while most < types.len() && min_values.first_short(&of_types(most)).is_some() {
        most += 1;
    }
    of_types(most)
}

fn by_price(a: &LaunchCandidate, b: &LaunchCandidate) -> std::cmp::Ordering {
    a.price.total_cmp(&b.price).then_with(|| (&a.instance_type, &a.zone).cmp(&(&b.instance_type, &b.zone)))
}

/// Bare metal and accelerators: launched only for pods that can use nothing else.
fn is_exotic(candidate: &LaunchCandidate) -> bool {
    candidate.instance_type.split_once('.').is_some_and(|(_, size)| size.starts_with("metal"))
        || candidate.labels.contains_key(labels::INSTANCE_GPU_COUNT)
        || candidate.labels.contains_key(labels::INSTANCE_ACCELERATOR_COUNT)
}

/// The subnet of a zone. The catalog function lists those with the most free addresses first.
fn subnet<'a>(subnets: &'a [Subnet], zone: &str) -> Option<&'a Subnet> {
    subnets.iter().find(|subnet| subnet.zone == zone)
}

/// Whether an image can run on a candidate.
fn fits(image: &Ami, candidate: &LaunchCandidate) -> bool {
    let mut labels_of_type = candidate.labels.clone();
    labels_of_type.insert(labels::ARCH.to_owned(), candidate.architecture.clone());
    let offered = Requirements::from_labels(&labels_of_type);
    image_requirements(image).is_some_and(|needed| offered.first_incompatible(&needed, |_| false).is_none())
}

/// The nodes that an AMI supports; `None` if that cannot be parsed, in which case it supports none.
#[must_use]
pub fn image_requirements(image: &Ami) -> Option<Requirements> {
    let terms: Vec<RequirementTerm> = image
        .requirements
        .iter()
        .filter_map(|requirement| {
            let operator = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist]
                .into_iter()
                .find(|operator| operator.as_str() == requirement.operator)?;
            let (key, values) = (requirement.key.clone(), requirement.values.clone());
            Some(RequirementTerm { key, operator, values, min_values: None })
        })
        .collect();
    // An unknown operator excludes the AMI instead of matching everything.
    if terms.len() != image.requirements.len() {
        return None;
    }
    Requirements::from_terms(&terms).ok()
}

#[cfg(test)]
mod tests;
