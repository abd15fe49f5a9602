//! First-fit-decreasing as in Karpenter.
//!
//! Pods are sorted by cpu, then memory, the largest first. Each is assigned to the first existing NodeClaim, in the order of
//! the number of pods, whose remaining instance types fit it, or else to a new one. Topology restricts a NodeClaim as in
//! Karpenter: a spread uses the emptiest allowed zone, affinity the zones of the selected pods. Finally each NodeClaim
//! becomes the cheapest of its remaining instance types.

use crate::world::{Amounts, FlatPod, FlatWorld, RESOURCES, Rule};
use std::collections::{BTreeSet, HashMap};

struct Claim {
    zones: u8,
    used: Amounts,
    kinds: Vec<usize>,
    /// The largest capacity of any remaining type.
    max: Amounts,
    hosts: HashMap<usize, u32>,
    pods: u32,
}

/// Dollars per hour, and the number of nodes.
pub fn plan(world: &FlatWorld) -> (f64, usize) {
    let mut order: Vec<&FlatPod> = world.pods.iter().collect();
    let size = |pod: &FlatPod| (-pod.amounts[0], -pod.amounts[1]);
    order.sort_by(|a, b| {
        let (a_size, b_size) = (size(a), size(b));
        a_size.0.total_cmp(&b_size.0).then(a_size.1.total_cmp(&b_size.1)).then(a.index.cmp(&b.index))
    });
    let mut claims: Vec<Claim> = Vec::new();
    let mut by_pods: BTreeSet<(u32, usize)> = BTreeSet::new();
    let mut zones: Vec<[u32; 3]> = vec![[0; 3]; world.groups.len()];
    // Pods that have to wait for others are tried again.
    while !order.is_empty() {
        let before = order.len();
        order.retain(|pod| !place(world, pod, &mut claims, &mut by_pods, &mut zones));
        assert!(order.len() < before, "{} pods cannot be placed in the baseline", order.len());
    }
    let price = |claim: &Claim| {
        claim.kinds.iter().map(|kind| cheapest(world, *kind, claim.zones)).fold(f64::INFINITY, f64::min)
    };
    (claims.iter().map(price).sum(), claims.len())
}

fn cheapest(world: &FlatWorld, kind: usize, zones: u8) -> f64 {
    let prices = &world.kinds[kind].prices;
    (0..3).filter(|zone| zones & (1 << zone) != 0).map(|zone| prices[zone]).fold(f64::INFINITY, f64::min)
}

fn place(
    world: &FlatWorld,
    pod: &FlatPod,
    claims: &mut Vec<Claim>,
    by_pods: &mut BTreeSet<(u32, usize)>,
    counts: &mut [[u32; 3]],
) -> bool {
    let found = by_pods.iter().find_map(|&(pods, index)| {
        let (zones, kinds) = admit(world, pod, &claims[index], counts)?;
        Some((pods, index, zones, kinds))
    });
    let (index, zones, kinds) = match found {
        Some((pods, index, zones, kinds)) => {
            by_pods.remove(&(pods, index));
            (index, zones, kinds)
        }
        None => {
            let empty = Claim {
                zones: 0b111,
                used: [0.0; RESOURCES.len()],
                kinds: (0..world.kinds.len()).collect(),
                max: [f64::INFINITY; RESOURCES.len()],
                hosts: HashMap::new(),
                pods: 0,
            };
            let Some((zones, kinds)) = admit(world, pod, &empty, counts) else { return false };
            claims.push(empty);
            (claims.len() - 1, zones, kinds)
        }
    };
    let claim = &mut claims[index];
    claim.zones = zones;
    claim.max = [0.0; RESOURCES.len()];
    for kind in &kinds {
        for (max, allocatable) in claim.max.iter_mut().zip(&world.kinds[*kind].allocatable) {
            *max = max.max(*allocatable);
        }
    }
    claim.kinds = kinds;
    claim.used = sum(&claim.used, &pod.amounts);
    claim.pods += 1;
    by_pods.insert((claim.pods, index));
    for &group in &pod.selected {
        *claim.hosts.entry(group).or_default() += 1;
        if zones.count_ones() == 1 {
            counts[group][zones.trailing_zeros() as usize] += 1;
        }
    }
    true
}

fn sum(a: &Amounts, b: &Amounts) -> Amounts {
    std::array::from_fn(|place| a[place] + b[place])
}

fn fits(asked: &Amounts, allocatable: &Amounts) -> bool {
    asked.iter().zip(allocatable).all(|(asked, allocatable)| *asked <= *allocatable + 1e-6)
}

/// The remaining zones and types if the pod is added; `None` if it cannot be added.
fn admit(world: &FlatWorld, pod: &FlatPod, claim: &Claim, counts: &[[u32; 3]]) -> Option<(u8, Vec<usize>)> {
    let used = sum(&claim.used, &pod.amounts);
    let mut zones = claim.zones & pod.zones;
    if zones == 0 || !fits(&used, &claim.max) {
        return None;
    }
    for &group in &pod.owned {
        let itself = u32::from(pod.selected.contains(&group));
        let rule = &world.groups[group];
        let here = claim.hosts.get(&group).copied().unwrap_or(0);
        if rule.zonal {
            zones = allowed(&rule.rule, &counts[group], zones, pod.zones, itself)?;
            continue;
        }
        let allowed = match rule.rule {
            Rule::Spread(skew) => here + itself <= skew,
            Rule::Apart => here == 0,
            Rule::Together => here > 0 || (itself > 0 && counts[group].iter().sum::<u32>() == 0),
        };
        if !allowed {
            return None;
        }
    }
    let kinds: Vec<usize> = claim.kinds.iter().copied().filter(|kind| holds(world, *kind, &used, zones)).collect();
    (!kinds.is_empty()).then_some((zones, kinds))
}

fn holds(world: &FlatWorld, kind: usize, used: &Amounts, zones: u8) -> bool {
    fits(used, &world.kinds[kind].allocatable) && cheapest(world, kind, zones).is_finite()
}

/// The zones that a rule allows.
fn allowed(rule: &Rule, counts: &[u32; 3], zones: u8, of_pod: u8, itself: u32) -> Option<u8> {
    let within = |mask: u8| (0..3_usize).filter(move |zone| mask & (1 << zone) != 0);
    let left = match rule {
        Rule::Spread(skew) => {
            let least = within(of_pod).map(|zone| counts[zone]).min()?;
            let open = within(zones).filter(|zone| counts[*zone] + itself <= least + skew);
            1 << open.min_by_key(|zone| counts[*zone])?
        }
        Rule::Together => {
            let taken: u8 = within(zones).filter(|zone| counts[*zone] > 0).map(|zone| 1 << zone).sum();
            let none_yet = itself > 0 && counts.iter().sum::<u32>() == 0;
            if taken == 0 && none_yet { 1 << within(zones).next()? } else { taken }
        }
        Rule::Apart => within(zones).filter(|zone| counts[*zone] == 0).map(|zone| 1 << zone).sum(),
    };
    (left != 0).then_some(left)
}
