//! What one CreateFleet call asks for.

use super::Groups;
use nodeless_api::EC2NodeClass;
use nodeless_api::nodeclass::Ami;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{CapacityType, NodeClaim, Operator, Requirements, StringMap, labels};
use nodeless_ports::cloud::LaunchCandidate;

/// The AWS adapter asks for no more types than these in one call.
const MAXIMUM_TYPES: usize = 60;

/// A call of CreateFleet.
#[derive(Debug)]
pub(super) struct FleetPlan {
    pub(super) capacity_type: CapacityType,
    pub(super) groups: Groups,
}

/// What tells apart the launch templates of one call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variant {
    pub(super) image_id: String,
    pub(super) max_pods: u32,
    pub(super) reservation_id: Option<String>,
}

/// One instance type in one subnet.
#[derive(Clone, Debug)]
pub(super) struct Override {
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) subnet_id: String,
}

impl FleetPlan {
    /// The variant that a type in a zone is launched with.
    pub(super) fn used(&self, instance_type: &str, zone: &str) -> Option<&Variant> {
        let is = |entry: &Override| entry.instance_type == instance_type && entry.zone == zone;
        self.groups.iter().find(|(_, overrides)| overrides.iter().any(is)).map(|(variant, _)| variant)
    }
}

/// Decides what to ask for: reserved before spot before on-demand, the cheapest types, each in a subnet of its zone.
pub(super) fn plan(class: &EC2NodeClass, candidates: &[LaunchCandidate]) -> Result<FleetPlan, String> {
    let name = class.metadata.name.clone().unwrap_or_default();
    let status = class.status.clone().unwrap_or_default();
    let chosen = choose(candidates);
    let first = *chosen.first().ok_or("no instance type and offering is left to launch")?;
    let mut groups = Groups::new();
    let mut in_subnets = false;
    for candidate in &chosen {
        let Some(subnet) = status.subnets.iter().find(|subnet| subnet.zone == candidate.zone) else { continue };
        in_subnets = true;
        let Some(image) = status.amis.iter().find(|image| fits(image, candidate)) else { continue };
        let variant = Variant {
            image_id: image.id.clone(),
            max_pods: candidate.max_pods,
            reservation_id: candidate.reservation_id.clone(),
        };
        groups.entry(variant).or_default().push(Override {
            instance_type: candidate.instance_type.clone(),
            zone: candidate.zone.clone(),
            subnet_id: subnet.id.clone(),
        });
    }
    match (groups.is_empty(), in_subnets) {
        (false, _) => Ok(FleetPlan { capacity_type: first.capacity_type, groups }),
        (true, false) => Err(format!("EC2NodeClass {name}: no subnet in the zones that were asked for")),
        (true, true) => Err(format!(
            "EC2NodeClass {name}: none of its {} AMIs fits {} ({})",
            status.amis.len(),
            first.instance_type,
            first.architecture
        )),
    }
}

/// The candidates of one capacity type, cheapest first.
fn choose(candidates: &[LaunchCandidate]) -> Vec<&LaunchCandidate> {
    let of = |kind| candidates.iter().filter(move |candidate| candidate.capacity_type == kind);
    let kinds = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
    let Some(kind) = kinds.into_iter().find(|kind| of(*kind).next().is_some()) else { return Vec::new() };
    let mut chosen: Vec<&LaunchCandidate> = of(kind).collect();
    chosen.sort_by(|a, b| {
        a.price.total_cmp(&b.price).then_with(|| (&a.instance_type, &a.zone).cmp(&(&b.instance_type, &b.zone)))
    });
    if kind == CapacityType::Reserved {
        // A template targets one reservation.
        let reservation = chosen.first().and_then(|first| first.reservation_id.clone());
        chosen.retain(|candidate| candidate.reservation_id == reservation);
    }
    let on_demand = of(CapacityType::OnDemand).map(|candidate| candidate.price).min_by(f64::total_cmp);
    if let Some(limit) = on_demand.filter(|limit| chosen.iter().any(|candidate| candidate.price <= *limit)) {
        // Spot that costs more than on-demand has only its disadvantages.
        chosen.retain(|candidate| kind != CapacityType::Spot || candidate.price <= limit);
    }
    if chosen.iter().any(|candidate| !is_exotic(candidate)) {
        chosen.retain(|candidate| !is_exotic(candidate));
    }
    let mut types: Vec<&str> = Vec::new();
    for candidate in &chosen {
        if !types.contains(&candidate.instance_type.as_str()) {
            types.push(&candidate.instance_type);
        }
    }
    types.truncate(MAXIMUM_TYPES);
    chosen.retain(|candidate| types.contains(&candidate.instance_type.as_str()));
    chosen
}

/// Bare metal and accelerators: launched only for those who can use nothing else.
fn is_exotic(candidate: &LaunchCandidate) -> bool {
    candidate.instance_type.split_once('.').is_some_and(|(_, size)| size.starts_with("metal"))
        || candidate.labels.contains_key(labels::INSTANCE_GPU_COUNT)
        || candidate.labels.contains_key(labels::INSTANCE_ACCELERATOR_COUNT)
}

/// Whether an image can run on a candidate. An operator that is not known excludes the image.
fn fits(image: &Ami, candidate: &LaunchCandidate) -> bool {
    let term = |requirement: &nodeless_api::nodeclass::AmiRequirement| {
        let operator = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist]
            .into_iter()
            .find(|operator| operator.as_str() == requirement.operator)?;
        let (key, values) = (requirement.key.clone(), requirement.values.clone());
        Some(RequirementTerm { key, operator, values, min_values: None })
    };
    let Some(terms) = image.requirements.iter().map(term).collect::<Option<Vec<_>>>() else { return false };
    let mut offered = candidate.labels.clone();
    offered.insert(labels::ARCH.to_owned(), candidate.architecture.clone());
    let offered = Requirements::from_labels(&offered);
    Requirements::from_terms(&terms).is_ok_and(|needed| offered.first_incompatible(&needed, |_| false).is_none())
}

/// The tags that say whose something is. The user's come first and cannot replace ours.
pub(super) fn owner_tags(cluster: &str, claim: &NodeClaim, users: &StringMap) -> StringMap {
    let mut tags = users.clone();
    tags.extend([
        (format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned()),
        (labels::CLUSTER_NAME_TAG.to_owned(), cluster.to_owned()),
        (labels::NODE_POOL.to_owned(), claim.node_pool.clone()),
        (labels::EC2_NODE_CLASS.to_owned(), claim.node_class.clone()),
    ]);
    tags
}

/// The tags of the instances of a launch. A claim that is launched alone has its name on the instance from the start.
pub(super) fn instance_tags(cluster: &str, claim: &NodeClaim, users: &StringMap) -> StringMap {
    let mut tags = owner_tags(cluster, claim, users);
    if let Some(group) = &claim.spec.launch_group {
        tags.insert(labels::LAUNCH_GROUP_TAG.to_owned(), group.id.clone());
    }
    if claim.spec.launch_group.as_ref().is_none_or(|group| group.size == 1) {
        tags.insert(labels::NODE_CLAIM_TAG.to_owned(), claim.name.clone());
    }
    tags
}
