//! The capacity of a node that pods can use together.
//!
//! Two reasons why a node of any plan cannot use more, so that the rest of its capacity can be omitted from a lower bound:
//!
//! - Pods are not divided: what the pods of a node request is a sum of whole requests. So a node uses at most the largest such
//!   sum that its capacity holds.
//! - Of a group with anti-affinity or spread over hosts, a node runs at most one pod, or `maxSkew` pods. So it uses at most what the
//!   largest of these request, of all groups, and all pods without such a group.

use crate::world::{Amounts, FlatWorld, Group, RESOURCES, Rule};
use std::collections::BTreeSet;

/// Up to this number of steps, all sums are computed; above, every multiple of the step counts as one.
const MAX_STEPS: usize = 4096;

/// The sums of the requests for one resource.
struct Sums {
    /// The greatest common divisor of the requests.
    step: u64,
    /// Whether requests add up to each number of steps.
    reached: Vec<bool>,
}

pub struct Usable {
    /// The sums of the requests for each resource; `None` if requests are not whole numbers, or nothing is requested.
    sums: [Option<Sums>; RESOURCES.len()],
    /// The maximum requests of the pods of one node.
    max: Amounts,
}

impl Usable {
    pub fn new(world: &FlatWorld) -> Self {
        let sums = std::array::from_fn(|place| Sums::new(world.pods.iter().map(|pod| pod.amounts[place])));
        Self { sums, max: std::array::from_fn(|place| most_on_a_node(world, place)) }
    }

    /// The part of a capacity that pods can use.
    pub fn within(&self, capacity: &Amounts) -> Amounts {
        std::array::from_fn(|place| {
            let capacity = if self.max[place] > 0.0 { capacity[place].min(self.max[place]) } else { capacity[place] };
            self.sums[place].as_ref().map_or(capacity, |sums| sums.within(capacity))
        })
    }
}

/// The maximum number of pods on one node that own the group and are selected by it.
const fn pods_per_node(group: &Group) -> Option<usize> {
    match group.rule {
        _ if group.zonal => None,
        Rule::Apart => Some(1),
        Rule::Spread(skew) => Some(skew as usize),
        Rule::Together => None,
    }
}

/// The requests for a resource of the pods that one node may run, if it were large enough. A pod of several groups counts for one.
fn most_on_a_node(world: &FlatWorld, place: usize) -> f64 {
    let mut of_groups: Vec<Vec<f64>> = vec![Vec::new(); world.groups.len()];
    let mut others = 0.0;
    for pod in &world.pods {
        let limiting = pod
            .owned
            .iter()
            .find(|group| pod.selected.contains(group) && pods_per_node(&world.groups[**group]).is_some());
        match limiting {
            Some(group) => of_groups[*group].push(pod.amounts[place]),
            None => others += pod.amounts[place],
        }
    }
    let of_group = |(group, mut requests): (&Group, Vec<f64>)| {
        requests.sort_by(|a, b| b.total_cmp(a));
        requests.iter().take(pods_per_node(group).unwrap_or(0)).sum::<f64>()
    };
    others + world.groups.iter().zip(of_groups).map(of_group).sum::<f64>()
}

impl Sums {
    fn new(requests: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sizes: BTreeSet<u64> = BTreeSet::new();
        for request in requests.filter(|request| *request > 0.0) {
            if request.fract() != 0.0 {
                return None;
            }
            sizes.insert(request as u64);
        }
        let step = sizes.iter().copied().reduce(common_divisor)?;
        let mut reached = vec![false; MAX_STEPS + 1];
        reached[0] = true;
        for steps in 1..=MAX_STEPS {
            let mut fitting = sizes.iter().map(|size| (size / step) as usize).take_while(|size| *size <= steps);
            reached[steps] = fitting.any(|size| reached[steps - size]);
        }
        Some(Self { step, reached })
    }

    fn within(&self, capacity: f64) -> f64 {
        // Plans may round, so a capacity that is short of a sum by less than this holds it.
        let steps = ((capacity + 1e-3) / self.step as f64).floor();
        if steps <= 0.0 {
            return capacity.min(0.0);
        }
        let steps = steps as usize;
        let most =
            if steps > MAX_STEPS { steps } else { (0..=steps).rev().find(|sum| self.reached[*sum]).unwrap_or(0) };
        capacity.min(most as f64 * self.step as f64)
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
