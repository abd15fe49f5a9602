//! Creates the workload of a combination.

use super::Combination;
use super::groups::{self, TAINT};
use super::relations::{RACK, topologies};
use crate::catalog::{self, ZONES};
use crate::draw::Draw;
use crate::pools::node_pool;
use crate::running::{Offered, place};
use crate::workload::{Place, Workload};
use nodeless_model::{
    CapacityType, InstanceType, InstanceTypes, NodePool, Pod, Quantity, Requirement, Requirements, ResourceList, Taint,
    TaintEffect, labels,
};
use std::collections::BTreeMap;

/// The pods on each existing node.
const KIND: &str = "m6i.4xlarge";

impl Combination {
    /// The workload.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let instance_types = types(self);
        let pending = groups::pods(self, self.pods as usize, "waits");
        let node_pools = pools(self, &pending);
        let places = places(self, &node_pools[0], &instance_types);
        let mut draw = Draw::new(self.seed ^ 0x701);
        let all = pending.iter().chain(places.iter().flat_map(|place| &place.pods));
        let claims = all.flat_map(|pod| &pod.template.volume_claims);
        let volumes: BTreeMap<String, Vec<Requirements>> =
            claims.map(|claim| (format!("default/{}", claim.claim_name), usable(self, &mut draw))).collect();
        Workload { node_pools, instance_types, pending, places, volumes, ..Workload::default() }
    }
}

fn types(of: &Combination) -> InstanceTypes {
    let types = catalog::embedded();
    if of.get("overlays") == 0 {
        return types;
    }
    let mut draw = Draw::new(of.seed ^ 0x0e1a);
    let changed = |kind: &InstanceType| {
        let (mut kind, factor) = (kind.clone(), 0.5 + draw.share());
        kind.offerings.iter_mut().for_each(|offering| offering.price *= factor);
        kind
    };
    types.iter().map(changed).collect()
}

fn pools(of: &Combination, pending: &[Pod]) -> Vec<NodePool> {
    let mut asked = ResourceList::new();
    pending.iter().for_each(|pod| asked.add(&pod.template.requests));
    (0..of.get("pools").max(1)).map(|index| pool(of, index, &asked)).collect()
}

fn pool(of: &Combination, index: u32, asked: &ResourceList) -> NodePool {
    let categories: &[&str] = if of.get("gpu") > 0 { &["c", "g", "m", "p", "r"] } else { &["c", "m", "r"] };
    let mut pool = node_pool(&format!("pool-{index:03}"), categories, &[CapacityType::OnDemand, CapacityType::Spot]);
    let [_, _, (_, racks)] = topologies(of);
    pool.template.requirements.add(RACK, Requirement::one_of(racks));
    if of.get("min_values") > 0 {
        let many = Requirement::exists().with_min_values(Some(of.get("min_values")));
        pool.template.requirements.add(labels::INSTANCE_TYPE, many);
    }
    if of.get("weights") == 1 {
        pool.weight = i32::try_from(index % 100).unwrap_or(0) + 1;
    }
    let effect = match (of.get("taints"), index % 2) {
        (1, 1) | (3, _) => Some(TaintEffect::NoSchedule),
        (2, 1) => Some(TaintEffect::PreferNoSchedule),
        _ => None,
    };
    pool.template.taints =
        effect.map(|effect| Taint { value: index.to_string(), ..Taint::new(TAINT, effect) }).into_iter().collect();
    if of.get("limits") > 0 {
        let allowed = asked.get("cpu").milli() / 100 * i64::from(of.get("limits"));
        pool.limits = ResourceList::new().with("cpu", Quantity::from_milli(allowed));
    }
    pool
}

fn places(of: &Combination, pool: &NodePool, types: &[InstanceType]) -> Vec<Place> {
    let (nodes, bound) = (of.get("nodes") as usize, of.get("bound") as usize);
    let Some(kind) = types.iter().find(|kind| kind.name == KIND) else { return Vec::new() };
    let [_, _, (_, racks)] = topologies(of);
    let mut dealt: Vec<Vec<Pod>> = vec![Vec::new(); nodes];
    for (index, pod) in groups::pods(of, nodes * bound, "runs").into_iter().enumerate() {
        dealt[index % nodes].push(pod);
    }
    let one = |(index, pods): (usize, Vec<Pod>)| {
        let (zone, price) = (ZONES[index % ZONES.len()], kind.offerings[0].price);
        let mut place = place(index, pool, kind, Offered { zone, capacity_type: CapacityType::OnDemand, price }, pods);
        let rack = &racks[index / ZONES.len() % racks.len()];
        place.node.labels.insert(RACK.into(), rack.clone());
        place.claim.status.labels.insert(RACK.into(), rack.clone());
        place
    };
    dealt.into_iter().enumerate().map(one).collect()
}

fn usable(of: &Combination, draw: &mut Draw) -> Vec<Requirements> {
    let first = draw.below(ZONES.len());
    let zones = (0..of.get("volume_zones") as usize).map(|next| ZONES[(first + next) % ZONES.len()]);
    let one = |zone: &str| Requirements::from([(labels::ZONE, Requirement::one_of([zone]))]);
    zones.map(one).collect()
}
