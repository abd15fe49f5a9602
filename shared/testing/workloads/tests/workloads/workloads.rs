//! Properties of the generators.

use nodeless_disruption::meter;
use nodeless_model::{CapacityType, Pod, StringMap, labels};
use nodeless_scheduling::{BoundPods, Launch, Options, Problem, Solution, held_preferences, solve};
use nodeless_workloads::combination::{Combination, FIELDS, worst};
use nodeless_workloads::export::{Fullness, export};
use nodeless_workloads::{Mix, Running, ScaledDown, Workload, node_pool};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn pods_depend_only_on_the_seed() {
    for mix in Mix::ALL {
        let pods = mix.pods(200, 7);
        assert_eq!(pods.len(), 200, "{mix:?}");
        assert_eq!(pods, mix.pods(200, 7), "{mix:?}");
        let keys: BTreeSet<String> = pods.iter().chain(&mix.pods(200, 8)).map(nodeless_model::Pod::key).collect();
        assert_eq!(keys.len(), 400, "{mix:?}");
        assert_eq!(Mix::named(mix.name()), Some(mix));
    }
}

#[test]
fn all_pods_of_a_mix_can_be_placed() {
    for mix in Mix::ALL {
        let workload = mix.pending(100, 3);
        let solution = solve(&workload.problem(), &Options::default());
        assert!(solution.unschedulable.is_empty(), "{mix:?}: {:#?}", solution.unschedulable[0]);
    }
}

#[test]
fn plans_with_refinement_are_valid_for_every_mix() {
    let few = ["m6i.", "c6i.", "r6i.", "g5.", "size-000", "size-001"];
    for mix in Mix::ALL {
        let mut workload = mix.pending(40, 5);
        let types =
            workload.instance_types.iter().filter(|kind| few.iter().any(|family| kind.name.starts_with(family)));
        workload.instance_types = types.cloned().collect();
        let (problem, options) = (workload.problem(), Options::default());
        let solution = nodeless_placement::plan(&problem, &nodeless_placement::Policy::new(&options, true));
        assert!(solution.unschedulable.is_empty(), "{mix:?}");
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        assert!(wrong.is_empty(), "{mix:?}: {wrong:#?}");
    }
}

#[test]
fn pods_of_a_running_cluster_fit_and_satisfy_anti_affinity() {
    let running = Running { mix: Mix::Stateful, nodes: 60, pods_per_node: 14, waste: 30, seed: 1 };
    let workload = running.workload();
    assert_eq!((workload.places.len(), workload.pods()), (60, 60 * 14));
    for node in workload.problem().nodes {
        assert!(node.available.iter().all(|(_, left)| left.milli() >= 0), "{node:#?}");
    }
    for place in &workload.places {
        let apps: BTreeSet<&String> = place.pods.iter().map(|pod| &pod.template.labels["app"]).collect();
        assert_eq!(apps.len(), place.pods.len(), "two pods of one set on {}", place.node.name);
        assert!(place.claim.status.instance.as_ref().unwrap().price > 0.0);
    }
    let mut zones: BTreeMap<&String, usize> = BTreeMap::new();
    workload.places.iter().for_each(|place| *zones.entry(&place.node.labels[labels::ZONE]).or_default() += 1);
    assert!(zones.values().all(|nodes| *nodes == 20), "{zones:?}");
}

#[test]
fn a_scaled_down_cluster_is_valid_and_filled_very_differently() {
    for mix in [Mix::Teams, Mix::ZonalSets] {
        let scaled = ScaledDown { mix, nodes: 90, fill: 100, seed: 3 };
        let workload = scaled.workload();
        assert_eq!(workload.pods(), scaled.workload().pods());
        assert_ne!(workload.pods(), ScaledDown { seed: 4, ..scaled }.workload().pods());
        let nodes = workload.problem().nodes;
        assert_eq!(nodes.len(), 90);
        let left = |name| nodes.iter().map(move |node| node.available.get(name).milli());
        assert!(["cpu", "memory", "pods"].iter().all(|name| left(name).all(|left| left >= 0)), "{mix:?}");
        let mut cpus: Vec<i64> = left("cpu").collect();
        cpus.sort_unstable();
        assert!(cpus[9] < 1500 && cpus[80] > 4000, "{mix:?}: {cpus:?}");
        let mut zones: BTreeMap<&String, [usize; 3]> = BTreeMap::new();
        for (index, place) in workload.places.iter().enumerate() {
            let own = place.pods.iter().filter(|pod| !pod.is_owned_by_daemon_set());
            let apps: Vec<&String> = own.map(|pod| &pod.template.labels["app"]).collect();
            assert_eq!(apps.iter().collect::<BTreeSet<_>>().len(), apps.len(), "two pods of a workload on one node");
            apps.iter().for_each(|app| zones.entry(app).or_default()[index % 3] += 1);
        }
        assert!(zones.values().all(|pods| pods.iter().max().unwrap() - pods.iter().min().unwrap() <= 1), "{zones:?}");
        let budgets = workload.disruption_budgets.len();
        assert!(budgets * 4 > zones.len() && budgets < zones.len(), "{budgets} of {}", zones.len());
    }
}

#[test]
fn an_export_is_a_list_with_each_pod_as_in_the_model() {
    let mut workload = Running { mix: Mix::Enterprise, nodes: 6, pods_per_node: 5, waste: 20, seed: 4 }.workload();
    workload.pending = Mix::ALL.iter().flat_map(|mix| mix.pods(20, 9)).collect();
    for fullness in [Fullness::Sparse, Fullness::AsKubectl] {
        let mut reader = nodeless_snapshot::Reader::default();
        reader.read("export", export(&workload, fullness).as_bytes());
        let snapshot = reader.finish();
        assert!(snapshot.faults.is_empty(), "{:?}", snapshot.faults);
        let exported: BTreeMap<String, &nodeless_model::Pod> =
            snapshot.view.pods().map(|pod| (pod.key(), pod)).collect();
        assert_eq!(exported.len(), workload.pods());
        for pod in workload.pending.iter().chain(workload.places.iter().flat_map(|place| &place.pods)) {
            let exported = exported[&pod.key()];
            assert_eq!(
                (&exported.template.requests, &exported.template.labels, &exported.node_name),
                (&pod.template.requests, &pod.template.labels, &pod.node_name)
            );
            assert_eq!(
                (&exported.template.topology_spread, exported.marked_unschedulable),
                (&pod.template.topology_spread, pod.marked_unschedulable)
            );
            assert_eq!(exported.template.required_pod_affinity, pod.template.required_pod_affinity);
            assert_eq!(exported.template.required_pod_anti_affinity, pod.template.required_pod_anti_affinity);
            assert_eq!(exported.template.preferred_pod_anti_affinity, pod.template.preferred_pod_anti_affinity);
        }
        assert_eq!((snapshot.view.nodes.len(), snapshot.view.daemon_sets.len()), (6, 5));
        let identity = |claim: &nodeless_model::NodeClaim| (claim.name.clone(), claim.provider_id(), claim.phase);
        let claims: Vec<_> = workload.places.iter().map(|place| identity(&place.claim)).collect();
        assert_eq!(snapshot.claims.iter().map(identity).collect::<Vec<_>>(), claims);
    }
}

#[test]
fn gpus_can_be_exported_as_devices() {
    let mut reader = nodeless_snapshot::Reader::default();
    reader.read("export", export(&Mix::GpuAndWeb.pending(300, 1), Fullness::Devices).as_bytes());
    let snapshot = reader.finish();
    assert!(snapshot.faults.is_empty(), "{:?}", snapshot.faults);
    let claims = |pod: &&Pod| !pod.template.resource_claims.is_empty();
    assert_eq!(snapshot.view.pods().filter(claims).count(), 3);
    assert!(snapshot.view.pods().all(|pod| pod.template.requests.get("nvidia.com/gpu").is_zero()));
}

#[test]
fn a_combination_is_written_in_one_line_and_read_again() {
    let mut draw = nodeless_workloads::Draw::new(5);
    for _ in 0..50 {
        let input = Combination::any(60, &mut draw);
        let read: Combination = input.to_string().parse().unwrap();
        assert_eq!(read, input);
    }
    assert_eq!(Combination::plain(9).to_string(), "seed=1 pods=9");
    for wrong in ["pods=many", "hard_zone", "colour=3"] {
        assert!(wrong.parse::<Combination>().is_err(), "{wrong}");
    }
    let lines = include_str!("../../src/combination/worst.txt").lines().filter(|line| !line.starts_with('#'));
    assert_eq!(worst().len(), lines.count(), "each line of worst.txt is an input");
}

#[test]
fn plans_are_valid_for_every_field() {
    for (name, choice) in FIELDS {
        let mut input = Combination::plain(12);
        for (name, value) in [("hard_zone", 10), ("apart_host", 10), ("pools", 2), (name, choice[1])] {
            input.set(name, value);
        }
        let mut workload = input.workload();
        // A few types are enough for a valid plan, and the checker takes long with all of them.
        let few = ["m6i.", "c6i.", "g5."];
        let types =
            workload.instance_types.iter().filter(|kind| few.iter().any(|family| kind.name.starts_with(family)));
        workload.instance_types = types.cloned().collect();
        assert_eq!(workload.pending.len(), 12, "{name}");
        let (problem, options) = (workload.problem(), Options::default());
        let solution = solve(&problem, &options);
        let wrong = nodeless_checker::violations(&problem, &solution, &options);
        assert!(wrong.is_empty(), "{input}: {wrong:#?}");
    }
}

/// The work of refinement, counted apart from its own bookkeeping, is charged, and no more than that of the plan.
#[test]
fn refinement_takes_at_most_as_much_work_as_the_plan() {
    let mut draw = nodeless_workloads::Draw::new(11);
    let random = (0..12).map(|_| Combination::any(80, &mut draw)).map(|input| (input.to_string(), input.workload()));
    let mixes = Mix::ALL
        .into_iter()
        .flat_map(|mix| [30, 300].map(|pods| (format!("{} {pods}", mix.name()), mix.pending(pods, 2))));
    let mut refined_plans = 0;
    for (name, mut workload) in mixes.chain(random) {
        let limits = nodeless_model::ResourceList::from([("cpu", nodeless_model::Quantity::from_units(100_000))]);
        workload.node_pools.iter_mut().for_each(|pool| pool.limits = limits.clone());
        let (problem, options) = (workload.problem(), Options::default());
        let solved = nodeless_placement::plan(&problem, &nodeless_placement::Policy::new(&options, false));
        let _before = meter::take();
        let refined = nodeless_placement::plan(&problem, &nodeless_placement::Policy::new(&options, true));
        let counts = meter::take();
        let charged = refined.work - solved.work;
        let counted = counts.visits / 8 + counts.admissions * 10 + counts.scheduler;
        assert!(counted <= charged, "{name}: {counts:?} of {charged}");
        assert!(charged <= solved.work, "{name}: {charged} after {}", solved.work);
        refined_plans += usize::from(counts.visits > 0 && counts.admissions > 0 && counts.scheduler > 0);
    }
    assert!(refined_plans > 5, "too few plans are refined to show anything: {refined_plans}");
}

/// The number of preferences that a plan does not meet, by pod.
fn unmet(workload: &Workload, problem: &Problem<'_>, solution: &Solution) -> BTreeMap<String, usize> {
    let node_labels = |(place, launch): (usize, &Launch)| {
        let kind = workload.instance_types.iter().find(|kind| kind.name == launch.offering.instance_type).unwrap();
        let mut of_node = launch.requirements.with(&kind.requirements).single_values();
        of_node.insert(labels::ZONE.to_owned(), launch.offering.zone.clone());
        of_node.insert(labels::HOSTNAME.to_owned(), format!("launch-{place}"));
        of_node
    };
    let all_labels: Vec<StringMap> = solution.launches.iter().enumerate().map(node_labels).collect();
    let launched = solution.launches.iter().zip(&all_labels).map(|(launch, of_node)| BoundPods {
        name: &of_node[labels::HOSTNAME],
        labels: of_node,
        taints: &[],
        pods: launch.pods.iter().map(|pod| problem.pods[*pod]).collect(),
    });
    let mut running: Vec<BoundPods<'_>> = launched.collect();
    let launches = running.len();
    running.extend(problem.bound_pods.iter().cloned());
    for placement in &solution.placements {
        let name = &problem.nodes[placement.node].name;
        let bound = running[launches..].iter_mut().find(|node| node.name == name).unwrap();
        bound.pods.push(problem.pods[placement.pod]);
    }
    let left = |pod: &Pod| {
        pod.template.topology_spread.iter().filter(|spread| !spread.hard).count()
            + pod.template.preferred_pod_affinity.len()
            + pod.template.preferred_pod_anti_affinity.len()
            + pod.template.preferred_node_affinity.len()
    };
    let of_launches = running[..launches].iter().flat_map(|node| node.pods.iter().copied());
    let mut counts: BTreeMap<String, usize> = of_launches.map(|pod| (pod.key(), left(pod))).collect();
    for held in held_preferences(&running, problem.facts).iter().filter(|held| held.node < launches) {
        counts.insert(held.pod.key(), left(&held.pod));
    }
    counts
}

#[test]
fn refinement_keeps_the_preferences_that_the_plan_meets() {
    let mut changed = 0;
    for (mix, pods, seed) in [Mix::Soft, Mix::Enterprise, Mix::Stateful, Mix::Diverse]
        .into_iter()
        .flat_map(|mix| [(mix, 40, 3), (mix, 120, 4), (mix, 300, 5)])
    {
        let workload = mix.pending(pods, seed);
        let (problem, options) = (workload.problem(), Options::default());
        let solved = nodeless_placement::plan(&problem, &nodeless_placement::Policy::new(&options, false));
        let refined = nodeless_placement::plan(&problem, &nodeless_placement::Policy::new(&options, true));
        changed += usize::from(solved.launches != refined.launches);
        let (before, after) = (unmet(&workload, &problem, &solved), unmet(&workload, &problem, &refined));
        for (pod, count) in after {
            assert!(
                count <= before[&pod],
                "{mix:?} {pods}: {pod} has {count} unmet preferences, {} before",
                before[&pod]
            );
        }
    }
    assert!(changed > 1, "refinement changes too few plans to show anything: {changed}");
}

/// The kube-scheduler binds to a new node no more than `maxSkew` of the pods of a zone spread at the first attempt, because it counts the
/// others that are nominated for it. Few plans can avoid such nodes altogether.
#[test]
fn few_pods_of_a_zone_spread_share_a_new_node() {
    for refined in [false, true] {
        let (mut spread, mut beyond) = (0, 0);
        for seed in 1..=6 {
            let workload = Mix::Enterprise.pending(300, seed);
            let problem = workload.problem();
            let solution =
                nodeless_placement::plan(&problem, &nodeless_placement::Policy::new(&Options::default(), refined));
            for launch in &solution.launches {
                let mut counts: BTreeMap<&StringMap, usize> = BTreeMap::new();
                let pods = launch.pods.iter().map(|pod| problem.pods[*pod]);
                pods.filter(|pod| !pod.template.topology_spread.is_empty() && pod.template.topology_spread[0].hard)
                    .for_each(|pod| *counts.entry(&pod.template.labels).or_default() += 1);
                spread += counts.values().sum::<usize>();
                beyond += counts.values().map(|count| count - 1).sum::<usize>();
            }
        }
        assert!(beyond * 5 <= spread, "{beyond} of {spread}, refined: {refined}");
    }
}

/// Machines with several GPUs cost more for each GPU than those with one. Pods with two GPUs need them, the others do not, even if
/// web pods could fill the rest of a large machine.
#[test]
fn pods_with_one_gpu_are_on_machines_with_one() {
    let workload = Workload {
        node_pools: vec![node_pool(
            "default",
            Mix::GpuAndWeb.categories(),
            &[CapacityType::OnDemand, CapacityType::Spot],
        )],
        instance_types: nodeless_workloads::catalog::embedded(),
        pending: Mix::GpuAndWeb.pods(5000, 1),
        ..Workload::default()
    };
    let problem = workload.problem();
    let solution = solve(&problem, &Options::default());
    assert!(solution.unschedulable.is_empty(), "{}", solution.unschedulable.len());
    let gpus = |pod: &usize| workload.pending[*pod].template.requests.get("nvidia.com/gpu").milli() / 1000;
    let large = solution.launches.iter().filter(|launch| launch.pods.iter().map(gpus).sum::<i64>() >= 4);
    let single = large.flat_map(|launch| &launch.pods).filter(|pod| gpus(pod) == 1).count();
    let all = workload.pending.iter().filter(|pod| pod.template.requests.get("nvidia.com/gpu").milli() == 1000).count();
    assert!(single * 5 < all, "{single} of {all} pods with one GPU are on machines with four or more");
}
