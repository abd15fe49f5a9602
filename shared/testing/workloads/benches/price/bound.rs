//! A lower bound of the price of every plan.
//!
//! Two linear programs. The plain one requires only that the capacity covers the sum of all requests. The better one also
//! assigns fractions of pods to types: a type for a pod has to fit it. Anti-affinity and spread over hosts are resources in
//! it, of which each node has the number of pods that it may run. Pods with similar proportions of requests are combined, and
//! rounded down to common proportions, so that the result is still a bound.
//!
//! Both use only the capacity of each node that whole pods can use together (`usable`).
//!
//! Both are bounds of every plan that satisfies all preferences, and of many that do not, because every such plan satisfies all constraints
//! of the programs, with integers. The better one contains only these zone constraints of pods: the allowed zones, and the minimum in each
//! zone if all pods of a spread own it. Omitted constraints only make a bound lower.

use crate::usable::Usable;
use crate::world::{Amounts, FlatPod, FlatWorld, Group, RESOURCES, Rule};
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolutionStatus, Variable};
use std::collections::BTreeMap;

/// A type with the price of a zone, or of the cheapest zone if zones do not matter.
struct Column {
    allocatable: Amounts,
    price: f64,
    zones: u8,
}

/// Pods with the same proportions of requests.
struct Lump {
    amounts: Amounts,
    /// The requests of the smallest of them: types that do not fit it are excluded.
    min: Amounts,
    pods: f64,
    zones: u8,
    groups: Vec<usize>,
}

/// The lower bound in dollars per hour of the plain program.
pub fn plain(world: &FlatWorld) -> f64 {
    let columns = columns(world, world.pods.iter().any(|pod| pod.zones != 0b111));
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let counts: Vec<Variable> =
        columns.iter().map(|column| problem.add_var(column.price, (0.0, f64::INFINITY))).collect();
    for place in 0..RESOURCES.len() {
        let asked: f64 = world.pods.iter().map(|pod| pod.amounts[place]).sum();
        if asked > 0.0 {
            let row = counts.iter().zip(&columns).map(|(count, column)| (*count, column.allocatable[place] / asked));
            problem.add_constraint(row.collect::<Vec<_>>(), ComparisonOp::Ge, 1.0);
        }
    }
    problem.solve().unwrap().into_solution().unwrap().objective()
}

fn columns(world: &FlatWorld, zonal: bool) -> Vec<Column> {
    let mut all: Vec<Column> = Vec::new();
    let usable = Usable::new(world);
    for kind in &world.kinds {
        let allocatable = usable.within(&kind.allocatable);
        if zonal {
            all.extend((0..3).map(|zone| Column { allocatable, price: kind.prices[zone], zones: 1 << zone }));
        } else {
            let price = kind.prices.iter().copied().fold(f64::INFINITY, f64::min);
            all.push(Column { allocatable, price, zones: 0b111 });
        }
    }
    all.retain(|column| column.price.is_finite());
    all.sort_by(|a, b| a.price.total_cmp(&b.price));
    let mut kept: Vec<Column> = Vec::new();
    for column in all {
        let better = |known: &Column| {
            known.zones == column.zones
                && known.allocatable.iter().zip(&column.allocatable).all(|(known, allocatable)| known >= allocatable)
        };
        if !kept.iter().any(better) {
            kept.push(column);
        }
    }
    kept
}

/// The maximum number of groups for which the program is small enough; a third of it if each type occurs once for each zone.
const MAX_INTEGER_NODES: usize = 500;

/// Rounds a proportion down to a step of the scale.
fn step(value: f64, steps: f64) -> (i64, f64) {
    if value <= 0.0 {
        return (i64::MIN, 0.0);
    }
    let place = (value.log2() * steps).floor();
    (place as i64, (place / steps).exp2())
}

/// Groups with a smaller fraction of all pods are omitted, because they require few nodes and would each add an integer variable.
/// Omitting them only lowers the bound.
const MIN_GROUP_SHARE: f64 = 1.0 / 40.0;

/// The groups over hosts that may require more nodes than the resources.
fn forcing(world: &FlatWorld) -> Vec<bool> {
    let mut pods = vec![0.0; world.groups.len()];
    for pod in &world.pods {
        pod.owned.iter().filter(|group| pod.selected.contains(group)).for_each(|group| pods[*group] += 1.0);
    }
    let least = world.pods.len() as f64 * MIN_GROUP_SHARE;
    let over_hosts = |group: &Group| !group.zonal && group.rule != Rule::Together;
    world.groups.iter().zip(pods).map(|(group, pods)| over_hosts(group) && pods >= least).collect()
}

fn lumps(world: &FlatWorld, steps: f64) -> Vec<Lump> {
    let forcing = forcing(world);
    let host_rule = |group: &usize| forcing[*group];
    let mut lumps: BTreeMap<(u8, Vec<usize>, [i64; 3]), Lump> = BTreeMap::new();
    for pod in &world.pods {
        let cpu = pod.amounts[0].max(1.0);
        let mut key = [0; 3];
        let mut rounded = pod.amounts;
        for (place, (rounded, key)) in rounded.iter_mut().skip(1).zip(&mut key).enumerate() {
            // The number of pods rarely limits a node, so its rounding is the coarsest.
            let fine = if place == 1 { steps / 8.0 } else { steps };
            let (number, proportion) = step(*rounded / cpu, fine);
            (*key, *rounded) = (number, cpu * proportion);
        }
        let groups: Vec<usize> =
            pod.owned.iter().filter(|group| host_rule(group) && pod.selected.contains(group)).copied().collect();
        let lump = lumps.entry((pod.zones, groups.clone(), key)).or_insert_with(|| Lump {
            amounts: [0.0; RESOURCES.len()],
            min: [f64::INFINITY; RESOURCES.len()],
            pods: 0.0,
            zones: pod.zones,
            groups,
        });
        lump.pods += 1.0;
        for (sum, more) in lump.amounts.iter_mut().zip(&rounded) {
            *sum += more;
        }
        for (min, asked) in lump.min.iter_mut().zip(&pod.amounts) {
            *min = min.min(*asked);
        }
    }
    lumps.into_values().collect()
}

/// The pods that a group selects, if these are exactly its owners.
fn members(world: &FlatWorld, group: usize) -> Option<Vec<&FlatPod>> {
    let concerned = |pod: &&FlatPod| pod.owned.contains(&group) || pod.selected.contains(&group);
    let members: Vec<&FlatPod> = world.pods.iter().filter(concerned).collect();
    let all = members.iter().all(|pod| pod.owned.contains(&group) && pod.selected.contains(&group));
    all.then_some(members)
}

/// The number of nodes for the largest group over hosts: its pods divided by the number that a node may run.
fn forced_nodes(world: &FlatWorld) -> u32 {
    let forced = |(place, group): (usize, &Group)| {
        let most = match group.rule {
            Rule::Spread(skew) => skew,
            Rule::Apart => 1,
            Rule::Together => return 0,
        };
        let pods = members(world, place).map_or(0, |members| members.len());
        if group.zonal { 0 } else { u32::try_from(pods).unwrap().div_ceil(most) }
    };
    world.groups.iter().enumerate().map(forced).max().unwrap_or(0)
}

/// The minimum in each zone of pods that are spread over all three.
///
/// If all pods that a spread selects own it and may be in every zone, each pod was placed in a zone that had fewer than
/// `maxSkew` pods more than the emptiest zone, and no zone has lost pods since. So in the result no zone has more than
/// `maxSkew` pods more than the emptiest, which has at least `(n - 2 maxSkew) / 3` of `n` pods. The requests of the smallest
/// pod are assumed for each. Zones in which a node can be launched are domains, as in Karpenter and in the plans.
fn min_in_each_zone(world: &FlatWorld) -> Option<Amounts> {
    let mut least = [0.0; RESOURCES.len()];
    for (place, group) in world.groups.iter().enumerate() {
        let Rule::Spread(skew) = group.rule else { continue };
        let Some(members) = members(world, place).filter(|_| group.zonal) else { continue };
        if members.iter().any(|pod| pod.zones != 0b111) {
            continue;
        }
        let each = ((members.len() as f64 - 2.0 * f64::from(skew)) / 3.0).ceil().max(0.0);
        for (resource, least) in least.iter_mut().enumerate() {
            let smallest = members.iter().map(|pod| pod.amounts[resource]).fold(f64::INFINITY, f64::min);
            *least += each * smallest.min(f64::MAX);
        }
    }
    least.iter().any(|amount| *amount > 0.0).then_some(least)
}

/// The lower bound in dollars per hour of the better program.
pub fn better(world: &FlatWorld) -> f64 {
    let in_each_zone = min_in_each_zone(world);
    let zonal = in_each_zone.is_some() || world.pods.iter().any(|pod| pod.zones != 0b111);
    let columns = columns(world, zonal);
    let most = if zonal { MAX_INTEGER_NODES / 3 } else { MAX_INTEGER_NODES };
    let mut lumps = lumps(world, 64.0);
    for steps in [32.0, 16.0, 8.0, 4.0, 2.0] {
        if lumps.len() <= most {
            break;
        }
        lumps = self::lumps(world, steps);
    }
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let counts: Vec<Variable> =
        columns.iter().map(|column| problem.add_var(column.price, (0.0, f64::INFINITY))).collect();
    let mut by_lump: Vec<Vec<(Variable, f64)>> = lumps.iter().map(|_| Vec::new()).collect();
    for (column, count) in columns.iter().zip(&counts) {
        let mut rows: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); RESOURCES.len()];
        let mut hosts: BTreeMap<usize, Vec<(Variable, f64)>> = BTreeMap::new();
        for (place, lump) in lumps.iter().enumerate() {
            let held = lump.min.iter().zip(&column.allocatable).all(|(min, allocatable)| *min <= allocatable + 1e-6);
            if column.zones & lump.zones == 0 || !held {
                continue;
            }
            let share = problem.add_var(0.0, (0.0, f64::INFINITY));
            by_lump[place].push((share, 1.0));
            for (row, (asked, allocatable)) in rows.iter_mut().zip(lump.amounts.iter().zip(&column.allocatable)) {
                if *asked > 0.0 {
                    row.push((share, asked / allocatable.max(1e-9)));
                }
            }
            for group in &lump.groups {
                hosts.entry(*group).or_default().push((share, lump.pods));
            }
        }
        for mut row in rows.into_iter().filter(|row| !row.is_empty()) {
            row.push((*count, -1.0));
            problem.add_constraint(row, ComparisonOp::Le, 0.0);
        }
        for (group, mut row) in hosts {
            let most = match world.groups[group].rule {
                Rule::Spread(skew) => f64::from(skew),
                _ => 1.0,
            };
            row.push((*count, -most));
            problem.add_constraint(row, ComparisonOp::Le, 0.0);
        }
    }
    let nodes = f64::from(forced_nodes(world));
    problem.add_constraint(counts.iter().map(|count| (*count, 1.0)).collect::<Vec<_>>(), ComparisonOp::Ge, nodes);
    for (zone, least) in in_each_zone.iter().flat_map(|least| (0..3).map(move |zone| (zone, least))) {
        for place in (0..RESOURCES.len()).filter(|place| least[*place] > 0.0) {
            let within = columns.iter().zip(&counts).filter(|(column, _)| column.zones == 1 << zone);
            let row = within.map(|(column, count)| (*count, column.allocatable[place] / least[place]));
            problem.add_constraint(row.collect::<Vec<_>>(), ComparisonOp::Ge, 1.0);
        }
    }
    for row in by_lump {
        problem.add_constraint(row, ComparisonOp::Eq, 1.0);
    }
    problem.set_time_limit(std::time::Duration::from_secs(60));
    match problem.solve().map(|outcome| outcome.into_solution()) {
        // Before the optimum is proven, the objective is not a bound.
        Ok(Ok(solution)) if solution.status() == SolutionStatus::Optimal => solution.objective(),
        _ => 0.0,
    }
}
