//! The price of launches: the cheapest for their pods, and with a choice of types.

use crate::support::*;
use nodeless_model::*;
use nodeless_scheduling::{Admission, Options, Prepared, solve};
use std::collections::BTreeMap;

#[test]
fn five_small_pods_make_one_node() {
    // Two xlarge nodes cost as much, and hold no more.
    let pods = pods(5, 1000, 1024);
    let solution = solve_checked(&problem(&pods, &[node_pool("default")]));
    assert_eq!(chosen(&solution), ["c9.2xlarge"]);
}

#[test]
fn nodes_that_are_full_are_not_merged() {
    let pods = pods(31, 1900, 512);
    let solution = solve_checked(&problem(&pods, &[node_pool("default")]));
    let most = solution.launches.iter().map(|launch| launch.pods.len()).max().unwrap();
    assert!(most < 31, "{:?}", chosen(&solution));
}

#[test]
fn memory_heavy_and_cpu_heavy_pods_get_what_suits_them() {
    let mut all = pods(30, 4000, 1024);
    all.extend(pods(30, 500, 15 * 1024));
    let solution = solve_checked(&problem(&all, &[node_pool("default")]));
    let price = solution.price_per_hour();
    // 135 cpu at 0.04 and 480 GiB are worth 5.40 together on nodes of four GiB a cpu, if such nodes were sold by slices.
    assert!(price < 5.4 * 1.1, "{price} {:?}", chosen(&solution));
}

#[test]
fn thousands_of_small_pods_do_not_make_lopsided_machines() {
    let pods = pods(1000, 100, 256);
    let solution = solve_checked(&problem(&pods, &[node_pool("default")]));
    // 100 cpu at 0.04 is the least that they could cost.
    let price = solution.price_per_hour();
    assert!(price < 4.0 * 1.1, "{price} {:?}", chosen(&solution));
}

#[test]
fn spot_is_taken_where_allowed_and_pods_that_must_not_do_not_spoil_it() {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::new();
    let pools = [pool];
    let mut all = pods(40, 1000, 1024);
    for pod in all.iter_mut().take(4) {
        pod.template_mut().node_selector.insert(labels::CAPACITY_TYPE.into(), "on-demand".into());
    }
    let solution = solve_checked(&problem(&all, &pools));
    let spot = |launch: &&nodeless_scheduling::Launch| launch.offering.capacity_type == CapacityType::Spot;
    let on_spot: usize = solution.launches.iter().filter(spot).map(|launch| launch.pods.len()).sum();
    assert!(on_spot >= 32, "{solution:#?}");
}

#[test]
fn a_launch_lists_what_could_stand_in_the_cheapest_first() {
    let pods = pods(1, 1000, 1024);
    let solution = solve_checked(&problem(&pods, &[node_pool("default")]));
    let launch = &solution.launches[0];
    assert_eq!(launch.instance_types.len(), catalog().len());
    assert_eq!(launch.instance_types[0].name, "c9.large");
    assert_eq!(launch.requirements.get(labels::ZONE).unwrap().values().unwrap().len(), 3);
    assert_eq!(launch.requirements.get(labels::CAPACITY_TYPE).unwrap().single(), Some("on-demand"));
}

#[test]
fn spot_nodes_can_be_many_types() {
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]))]);
    let pools = [pool];
    let pods = pods(400, 900, 1024);
    let solution = solve_checked(&problem(&pods, &pools));
    let fewest = solution.launches.iter().map(|launch| launch.instance_types.len()).min();
    assert!(fewest >= Some(10), "{:?}", chosen(&solution));
}

/// The names of the types of the nodes for 16 pods, if twelve types hold eight of them and one, which costs less by this fraction for
/// each pod, holds all.
fn chosen_beside_a_cheaper_type(saving: f64) -> Vec<String> {
    let price = 0.4;
    let mut types: Vec<InstanceType> =
        (0..12).map(|index| instance_type("a9", &format!("{index}xlarge"), "amd64", (8, 16, 0), price)).collect();
    types.push(instance_type("b9", "large", "amd64", (16, 32, 0), 2.0 * price * (1.0 - saving)));
    let mut pool = node_pool("default");
    pool.template.requirements = Requirements::from([(labels::CAPACITY_TYPE, Requirement::one_of(["spot"]))]);
    let pods = pods(16, 990, 1024);
    let mut problem = problem(&pods, std::slice::from_ref(&pool));
    problem.node_pools[0].instance_types = types.into();
    chosen(&solve_checked(&problem)).into_iter().map(|name| name[..2].to_owned()).collect()
}

#[test]
fn a_spot_node_of_few_types_is_planned_if_it_saves_more_than_a_twentieth() {
    assert_eq!(chosen_beside_a_cheaper_type(0.03), ["a9", "a9"]);
    assert_eq!(chosen_beside_a_cheaper_type(0.08), ["b9"]);
}

#[test]
fn a_node_holds_no_more_pods_than_the_options_allow() {
    let pods = pods(100, 100, 128);
    let pools = [node_pool("default")];
    let options = Options { max_pods_per_node: Some(10), ..Options::default() };
    let solution = solve(&problem(&pods, &pools), &options);
    assert!(solution.unschedulable.is_empty());
    assert!(solution.launches.iter().all(|launch| launch.pods.len() <= 10), "{:?}", chosen(&solution));
    assert_eq!(solution.launches.len(), 10);
}

#[test]
fn pods_with_two_gpus_get_machines_of_several_and_the_others_do_not() {
    let mut all = pods(12, 1000, 4096);
    for (index, pod) in all.iter_mut().enumerate() {
        pod.template_mut().requests.set("nvidia.com/gpu", Quantity::from_units(if index < 4 { 2 } else { 1 }));
    }
    let solution = solve_checked(&problem(&all, &[node_pool("default")]));
    let mut chosen = chosen(&solution);
    chosen.sort_unstable();
    // Two machines of four GPUs at 4.00 for the pods that need two, eight of one at 0.80.
    let small = chosen.iter().filter(|name| **name == "g9.xlarge").count();
    assert_eq!((chosen.len(), small), (10, 8), "{chosen:?}");
}

#[test]
fn nodes_that_anti_affinity_forces_are_small() {
    let mut all = pods(60, 500, 1024);
    for pod in all.iter_mut().take(20) {
        pod.template_mut().labels.insert("app".into(), "lonely".into());
        pod.template_mut().required_pod_anti_affinity = vec![nodeless_model::pod::PodAffinityTerm {
            selector: Some(LabelSelector::from_labels(pod.template.labels.clone())),
            topology_key: labels::HOSTNAME.into(),
            ..Default::default()
        }];
    }
    let solution = solve_checked(&problem(&all, &[node_pool("default")]));
    assert_eq!(solution.launches.len(), 20, "{:?}", chosen(&solution));
    assert!(chosen(&solution).iter().all(|name| name.ends_with(".large")), "{:?}", chosen(&solution));
}

/// Consolidation keeps the prices of each NodePool for each kind of pods, and most kinds can use one NodePool.
#[test]
fn prices_take_no_more_memory_than_what_a_pod_can_be_launched_on() {
    let mut others = node_pool("others");
    let taint = Taint { key: "team".into(), value: "b".into(), effect: TaintEffect::NoSchedule };
    others.template.taints.push(taint);
    let mut labelled = node_pool("labelled");
    labelled.template.labels.insert("team".into(), "c".into());
    let pools = [node_pool("default"), others, labelled];
    let pods = [pod("a", 1000, 1024).with_template(|it| drop(it.node_selector.insert("team".into(), "a".into())))];
    let problem = problem(&pods, &pools);
    let mut prepared = Prepared::new(&problem.node_pools, &[], pods.iter(), problem.facts, &Options::default());
    let prices = |prepared: &mut Prepared<'_>, pool: &str, selector: &[(&str, &str)]| {
        let pod = pod("b", 1000, 1024).with_template(|it| {
            it.node_selector.extend(selector.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        });
        let admission = Admission::new(&pod, &BTreeMap::new()).unwrap();
        let prices = prepared.prices(pool, &admission, &mut 0);
        (prices.len(), prices.capacity())
    };
    assert_eq!(prices(&mut prepared, "others", &[]), (0, 0), "the taint is not tolerated");
    assert_eq!(prices(&mut prepared, "labelled", &[("team", "a")]), (0, 0), "the label differs");
    assert_eq!(prices(&mut prepared, "default", &[(labels::INSTANCE_SIZE, "large")]), (4, 4));
}
