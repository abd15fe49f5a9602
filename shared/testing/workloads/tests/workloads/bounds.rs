//! The lower bounds of the bench `price` never exceed the price of a valid plan.

use crate::world::{Amounts, FlatPod, FlatWorld, Rule};
use crate::{bound, strict, usable, world};
use nodeless_model::{CapacityType, InstanceTypes, Pod, Quantity, labels};
use nodeless_scheduling::Options;
use nodeless_workloads::build::{daemon_set, five_daemon_sets, labelled, near, pod, soft_spread, spread};
use nodeless_workloads::catalog::{embedded, sized};
use nodeless_workloads::{Draw, Mix, Workload, node_pool};

const TOLERANCE: f64 = 1.0 + 1e-6;

/// A few pods in groups with constraints of every kind that the bounds use, on a few types.
fn small(draw: &mut Draw, most: usize, kinds: usize) -> Workload {
    let mut pending: Vec<Pod> = Vec::new();
    let count = draw.between(1, most);
    while pending.len() < count {
        let own = labelled("app", &format!("app-{}", pending.len()));
        let (cpu, memory) = (draw.one_of(&[100, 250, 450, 700, 1000, 1900]), draw.one_of(&[100, 300, 1024, 2500]));
        let (kind, gpus) = (draw.below(6), draw.one_of(&[0, 0, 0, 1, 2]));
        for _ in 0..draw.between(1, 5).min(count - pending.len()) {
            let mut pod = pod(format!("pod-{:03}", pending.len()), cpu, memory);
            pod.template_mut().labels = own.clone();
            match kind {
                0 => pod.template_mut().topology_spread = vec![spread(labels::ZONE, own.clone())],
                1 => pod.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME, own.clone())],
                2 => {
                    pod.template_mut().topology_spread = vec![soft_spread(labels::ZONE, own.clone())];
                    pod.template_mut().required_pod_anti_affinity = vec![near(labels::HOSTNAME, own.clone())];
                }
                3 => pod.template_mut().topology_spread = vec![spread(labels::HOSTNAME, own.clone())],
                4 if gpus > 0 => pod.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(gpus)),
                _ => {}
            }
            pending.push(pod);
        }
    }
    let daemon_sets = if draw.percent(50) { vec![daemon_set("agent", 130, 100)] } else { Vec::new() };
    let instance_types: InstanceTypes = (0..kinds).map(|number| one_type(draw, number, kinds)).collect();
    let bought = [CapacityType::OnDemand, CapacityType::Spot];
    let bought = &bought[..draw.between(1, 2)];
    Workload {
        node_pools: vec![node_pool_for_all(bought)],
        instance_types,
        pending,
        daemon_sets,
        ..Workload::default()
    }
}

fn node_pool_for_all(bought: &[CapacityType]) -> nodeless_model::NodePool {
    let mut pool = node_pool("default", &[], bought);
    pool.template.requirements.remove(labels::INSTANCE_GENERATION);
    pool
}

fn one_type(draw: &mut Draw, number: usize, kinds: usize) -> nodeless_model::InstanceType {
    // The last one holds every pod.
    let cpu = if number + 1 == kinds { 8 } else { draw.one_of(&[1, 2, 2, 4]) };
    let price = 0.04 * cpu as f64 * (0.8 + 0.4 * draw.share());
    let (memory, pods) = (cpu * draw.one_of(&[1024, 2048, 4096]) + 700, draw.one_of(&[3, 8, 30]));
    let mut made = sized(format!("type-{number}"), cpu, memory, pods, price);
    if number + 1 == kinds || draw.percent(20) {
        made.capacity.set("nvidia.com/gpu", Quantity::from_units(2));
    }
    for offering in &mut made.offerings {
        offering.price *= 0.7 + 0.6 * draw.share();
    }
    made
}

#[test]
fn no_bound_exceeds_the_price_of_a_valid_plan() {
    let mut compared = 0;
    for seed in 0..150 {
        let workload = small(&mut Draw::new(seed), 40, 6);
        compared += usize::from(is_below_the_plan(&workload, &format!("seed {seed}")));
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn no_bound_exceeds_the_price_of_a_plan_of_a_mix() {
    let few = ["m6i.", "c6g.", "r6g.", "g5g.", "g4dn."];
    for mix in [Mix::Plain, Mix::GpuAndWeb, Mix::Stateful, Mix::Soft, Mix::Enterprise, Mix::Diverse] {
        for seed in 0..3 {
            let kinds =
                embedded().iter().filter(|kind| few.iter().any(|one| kind.name.starts_with(one))).cloned().collect();
            let workload = Workload {
                node_pools: vec![node_pool("default", mix.categories(), &[CapacityType::OnDemand])],
                instance_types: kinds,
                pending: mix.pods(30, seed),
                daemon_sets: if seed == 0 { five_daemon_sets() } else { Vec::new() },
                ..Workload::default()
            };
            assert!(is_below_the_plan(&workload, &format!("{mix:?} {seed}")));
        }
    }
}

/// Checks the bounds against the plan with all preferences as requirements. Returns whether the plan has all pods.
fn is_below_the_plan(workload: &Workload, name: &str) -> bool {
    let strict = strict::strict(workload);
    let (problem, options) = (strict.problem(), Options::default());
    let plan = nodeless_placement::plan(&problem, &nodeless_placement::Policy::new(&options, true));
    let wrong = nodeless_checker::violations(&problem, &plan, &options);
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    if !plan.unschedulable.is_empty() {
        return false;
    }
    let world = world::world(&strict);
    let price = plan.price_per_hour() * TOLERANCE;
    let (plain, better) = (bound::plain(&world), bound::better(&world));
    assert!(plain > 0.0 && plain <= price, "{name}: plain bound {plain}, price {price}");
    assert!(better > 0.0 && better <= price, "{name}: better bound {better}, price {price}");
    true
}

#[test]
fn no_bound_exceeds_the_cheapest_of_all_plans() {
    let mut tight = 0;
    for seed in 0..120 {
        let world = world::world(&strict::strict(&small(&mut Draw::new(1000 + seed), 6, 4)));
        let Some(cheapest) = cheapest(&world) else { continue };
        let (plain, better) = (bound::plain(&world), bound::better(&world));
        assert!(plain <= cheapest * TOLERANCE, "seed {seed}: plain bound {plain}, the cheapest plan costs {cheapest}");
        assert!(
            better <= cheapest * TOLERANCE,
            "seed {seed}: better bound {better}, the cheapest plan costs {cheapest}"
        );
        tight += usize::from(better.max(plain) * 1.02 >= cheapest);
    }
    // The bounds are not just small.
    assert!(tight >= 10, "{tight}");
}

/// The price of the cheapest plan, of all partitions of the pods into nodes, in all zones. It may be lower because a spread is only
/// required of all pods together, and not of each when it is placed.
fn cheapest(world: &FlatWorld) -> Option<f64> {
    let mut search = Search { world, nodes: Vec::new(), best: f64::INFINITY };
    search.place(0);
    Some(search.best).filter(|price| price.is_finite())
}

struct Search<'w> {
    world: &'w FlatWorld,
    nodes: Vec<(usize, Vec<usize>)>,
    best: f64,
}

impl Search<'_> {
    fn place(&mut self, pod: usize) {
        if pod == self.world.pods.len() {
            if self.spreads_hold() {
                let price: f64 = self.nodes.iter().map(|(zone, pods)| self.price(*zone, pods)).sum();
                self.best = self.best.min(price);
            }
            return;
        }
        for node in 0..self.nodes.len() {
            if self.may_join(pod, node) {
                self.nodes[node].1.push(pod);
                self.place(pod + 1);
                self.nodes[node].1.pop();
            }
        }
        for zone in (0..3).filter(|zone| self.world.pods[pod].zones & (1 << zone) != 0) {
            self.nodes.push((zone, vec![pod]));
            self.place(pod + 1);
            self.nodes.pop();
        }
    }

    fn may_join(&self, pod: usize, node: usize) -> bool {
        let (zone, pods) = &self.nodes[node];
        let new = &self.world.pods[pod];
        let all: Vec<&FlatPod> = pods.iter().map(|one| &self.world.pods[*one]).chain([new]).collect();
        let on_host = |group: &usize| {
            let rule = &self.world.groups[*group];
            let selected = all.iter().filter(|one| one.selected.contains(group)).count();
            match rule.rule {
                _ if rule.zonal => true,
                Rule::Spread(skew) => selected <= skew as usize,
                Rule::Apart => selected <= 1,
                Rule::Together => true,
            }
        };
        new.zones & (1 << zone) != 0 && new.owned.iter().all(on_host)
    }

    fn spreads_hold(&self) -> bool {
        (0..self.world.groups.len()).all(|group| {
            let Rule::Spread(skew) = self.world.groups[group].rule else { return true };
            let mut counts = [0_u32; 3];
            for (zone, pods) in &self.nodes {
                let selected = pods.iter().filter(|pod| self.world.pods[**pod].selected.contains(&group)).count();
                counts[*zone] += u32::try_from(selected).unwrap();
            }
            !self.world.groups[group].zonal || counts.iter().max().unwrap() - counts.iter().min().unwrap() <= skew
        })
    }

    fn price(&self, zone: usize, pods: &[usize]) -> f64 {
        let mut asked: Amounts = [0.0; world::RESOURCES.len()];
        for pod in pods {
            asked.iter_mut().zip(self.world.pods[*pod].amounts).for_each(|(sum, more)| *sum += more);
        }
        let fitting = self
            .world
            .kinds
            .iter()
            .filter(|kind| asked.iter().zip(kind.allocatable).all(|(asked, allocatable)| *asked <= allocatable));
        fitting.map(|kind| kind.prices[zone]).fold(f64::INFINITY, f64::min)
    }
}

fn flat(cpu: f64, memory: f64, group: Option<usize>) -> FlatPod {
    let groups: Vec<usize> = group.into_iter().collect();
    FlatPod { index: 0, amounts: [cpu, memory, 1.0, 0.0], zones: 0b111, owned: groups.clone(), selected: groups }
}

fn group(rule: Rule) -> world::Group {
    world::Group { rule, zonal: false, selector: nodeless_model::LabelSelector::default() }
}

#[test]
fn a_node_uses_sums_of_requests_only() {
    let pods = vec![flat(300.0, 1000.0, None), flat(500.0, 1000.0, None), flat(500.0, 1000.0, None)];
    let usable = usable::Usable::new(&FlatWorld { pods, groups: Vec::new(), kinds: Vec::new() });
    // No requests add up to 700; all pods together request 1,300 and 3,000.
    assert_eq!(usable.within(&[790.0, 2999.0, 29.0, 0.0]), [600.0, 2000.0, 3.0, 0.0]);
    assert_eq!(usable.within(&[9000.0, 9000.0, 29.0, 4.0]), [1300.0, 3000.0, 3.0, 4.0]);
    assert_eq!(usable.within(&[200.0, -5.0, 29.0, 0.0]), [0.0, -5.0, 3.0, 0.0]);
}

#[test]
fn a_node_uses_no_more_than_the_pods_that_may_share_it() {
    let pods = vec![
        flat(100.0, 10.0, Some(0)),
        flat(200.0, 10.0, Some(0)),
        flat(100.0, 10.0, Some(1)),
        flat(100.0, 10.0, Some(1)),
        flat(100.0, 10.0, Some(1)),
        flat(100.0, 10.0, None),
    ];
    let groups = vec![group(Rule::Apart), group(Rule::Spread(2))];
    let usable = usable::Usable::new(&FlatWorld { pods, groups, kinds: Vec::new() });
    assert_eq!(usable.within(&[9000.0, 9000.0, 29.0, 0.0]), [500.0, 40.0, 4.0, 0.0]);
}
