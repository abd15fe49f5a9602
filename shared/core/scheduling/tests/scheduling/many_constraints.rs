//! Pods with very many constraints: they are left out, or take a bounded part of the work, and other pods are placed.

use crate::support::*;
use nodeless_model::pod::{PodAffinityTerm, TopologySpread, Weighted};
use nodeless_model::*;
use nodeless_scheduling::{
    BoundPods, ClusterFacts, MAX_CONDITIONS, MAX_CONSTRAINTS, MAX_VALUES, Options, held_preferences, solve,
};
use std::collections::BTreeMap;

/// Changes a pod so that it has a number of constraints.
type Crowd = fn(&mut Pod, usize);

fn selecting(index: usize) -> LabelSelector {
    selector("app", &format!("app-{index}"))
}

fn spread(topology_key: &str, index: usize) -> TopologySpread {
    TopologySpread { hard: false, honor_node_taints: true, ..topology_spread(topology_key, selecting(index)) }
}

fn near(index: usize) -> PodAffinityTerm {
    PodAffinityTerm {
        selector: Some(selecting(index)),
        topology_key: labels::ZONE.into(),
        ..PodAffinityTerm::default()
    }
}

fn not_in(index: usize) -> Vec<requirement::RequirementTerm> {
    vec![term(labels::INSTANCE_FAMILY, Operator::NotIn, &[&format!("x{index}")])]
}

fn weighted<T>(preference: T) -> Weighted<T> {
    Weighted { weight: 1, preference }
}

/// Constraints of each kind that share a maximum of [`MAX_CONSTRAINTS`].
const KINDS: [(&str, Crowd); 9] = [
    ("topology spread constraints", |pod, count| {
        pod.template_mut().topology_spread = (0..count).map(|index| spread(labels::ZONE, index)).collect();
    }),
    ("topology spread constraints", |pod, count| {
        pod.template_mut().topology_spread = (0..count).map(|index| spread(&format!("key-{index}"), index)).collect();
    }),
    ("pod affinity and anti-affinity terms", |pod, count| {
        pod.template_mut().preferred_pod_affinity = (0..count).map(|index| weighted(near(index))).collect();
    }),
    ("pod affinity and anti-affinity terms", |pod, count| {
        pod.template_mut().preferred_pod_anti_affinity = (0..count).map(|index| weighted(near(index))).collect();
    }),
    ("pod affinity and anti-affinity terms", |pod, count| {
        pod.template_mut().required_pod_anti_affinity = (0..count).map(near).collect();
    }),
    ("node affinity terms", |pod, count| {
        pod.template_mut().preferred_node_affinity = (0..count).map(|index| weighted(not_in(index))).collect();
    }),
    ("node affinity terms", |pod, count| pod.template_mut().required_node_affinity = (0..count).map(not_in).collect()),
    ("tolerations", |pod, count| {
        let one = |index| Toleration { key: format!("key-{index}"), ..Toleration::default() };
        pod.template_mut().tolerations = (0..count).map(one).collect();
    }),
    ("requested resources", |pod, count| {
        // The request for cpu, memory and pods is among them.
        let others = count - pod.template.requests.iter().count();
        (0..others)
            .for_each(|index| pod.template_mut().requests.set(&format!("example.com/{index}"), Quantity::default()));
    }),
];

fn crowded(crowd: Crowd, count: usize) -> Pod {
    let mut pod = pod("crowded", 1000, 1024);
    crowd(&mut pod, count);
    pod
}

#[test]
fn a_pod_with_thousands_of_constraints_is_left_out_and_named_and_others_are_placed() {
    let pools = [node_pool("default")];
    let plain = [pod("web", 1000, 1024)];
    let least = solve(&problem(&plain, &pools), &Options::default()).work;
    for (what, crowd) in KINDS {
        let pods = [crowded(crowd, 3_000), pod("web", 1000, 1024)];
        let solution = solve_checked(&problem(&pods, &pools));
        assert_eq!(solution.launches.len(), 1, "{what}");
        assert_eq!(solution.launches[0].pods, [1], "{what}");
        assert_eq!(solution.unschedulable[0].pod, 0, "{what}");
        assert_eq!(reasons(&solution), [format!("it has 3000 {what}, and a plan evaluates at most 100")], "{what}");
        assert_eq!(advice(&problem(&pods, &pools)).remedies, [format!("reduce the {what} to 100 or fewer")], "{what}");
        assert!(solution.work < least * 2, "{what}: {} where the other pod alone takes {least}", solution.work);
    }
}

#[test]
fn a_pod_with_the_maximum_of_constraints_is_placed() {
    let pools = [node_pool("default")];
    for (what, crowd) in KINDS {
        let pods = [crowded(crowd, MAX_CONSTRAINTS)];
        assert_eq!(solve_checked(&problem(&pods, &pools)).launches.len(), 1, "{what}");
        let pods = [crowded(crowd, MAX_CONSTRAINTS + 1)];
        assert_eq!(solve_checked(&problem(&pods, &pools)).launches.len(), 0, "{what}");
    }
}

#[test]
fn conditions_and_values_have_a_maximum_too() {
    let pools = [node_pool("default")];
    let values = |count: usize| {
        let values: Vec<String> = (0..count).map(|index| format!("x{index}")).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let mut pod = pod("values", 1000, 1024);
        pod.template_mut().required_node_affinity = vec![vec![term(labels::INSTANCE_TYPE, Operator::NotIn, &values)]];
        pod
    };
    let conditions = |count: usize| {
        let mut pod = pod("conditions", 1000, 1024);
        let condition = |index: usize| term(&format!("key-{index}"), Operator::DoesNotExist, &[]);
        pod.template_mut().required_node_affinity = vec![(0..count).map(condition).collect()];
        pod
    };
    let (most, too_many) = (values(MAX_VALUES), values(MAX_VALUES + 1));
    let expected = "it has 10001 values in its node affinity and label selectors, and a plan evaluates at most 10000";
    assert_limit(&pools, most, too_many, expected);
    let (most, too_many) = (conditions(MAX_CONDITIONS), conditions(MAX_CONDITIONS + 1));
    let expected =
        "it has 1001 conditions in its node selector, affinity and label selectors, and a plan evaluates at most 1000";
    assert_limit(&pools, most, too_many, expected);
}

fn assert_limit(pools: &[NodePool], most: Pod, too_many: Pod, expected: &str) {
    assert_eq!(solve_checked(&problem(&[most], pools)).launches.len(), 1);
    assert_eq!(reasons(&solve_checked(&problem(&[too_many], pools))), [expected]);
}

#[test]
fn volumes_whose_topologies_combine_to_thousands_are_refused() {
    let pools = [node_pool("default")];
    let mut pod = pod("db", 1000, 1024);
    let claims = 0..12;
    pod.template_mut().volume_claims =
        claims.clone().map(|index| pod::VolumeClaim { claim_name: format!("v{index}"), ephemeral: false }).collect();
    let place = |key: &str, value: &str| Requirements::from([(key, Requirement::one_of([value]))]);
    let volumes: BTreeMap<String, Vec<Requirements>> = claims
        .map(|index| {
            let key = format!("example.com/{index}");
            (format!("default/v{index}"), vec![place(&key, "a"), place(&key, "b")])
        })
        .collect();
    let pods = [pod];
    let mut problem = problem(&pods, &pools);
    problem.facts = ClusterFacts { volumes: &volumes, ..ClusterFacts::default() };
    assert_eq!(
        reasons(&solve_checked(&problem)),
        [
            "it has 1024 combinations of node affinity terms and topologies of its volumes, and a plan evaluates at most 1000"
        ]
    );
}

/// The counted work of one pod with this many constraints.
fn work(crowd: Crowd, count: usize) -> u64 {
    let pools = [node_pool("default")];
    let pods = [crowded(crowd, count)];
    solve(&problem(&pods, &pools), &Options::default()).work
}

#[test]
fn the_work_of_a_pods_constraints_is_counted_and_grows_at_most_with_their_square() {
    for (what, crowd) in KINDS.into_iter().filter(|(what, _)| !matches!(*what, "tolerations" | "requested resources")) {
        let (few, some, many) = (work(crowd, 10), work(crowd, 50), work(crowd, 100));
        assert!(many > few, "{what}: {many} and {few}");
        // The square of the factor between 50 and 100, plus what does not depend on the number.
        assert!(many <= some * 4, "{what}: {many} where half of them take {some}");
    }
}

/// A pod whose required spreads combine the domains of several labels.
fn over_labels(name: &str, keys: &[&str]) -> Pod {
    let mut pod = pod(name, 2000, 1024);
    pod.template_mut().labels = StringMap::from([("app".into(), "app-0".into())]);
    pod.template_mut().topology_spread =
        keys.iter().map(|key| TopologySpread { hard: true, ..spread(key, 0) }).collect();
    pod
}

const MANY_DOMAINS: [&str; 5] =
    [labels::INSTANCE_TYPE, labels::INSTANCE_FAMILY, labels::INSTANCE_SIZE, labels::INSTANCE_CPU, labels::ZONE];

#[test]
fn a_pod_whose_constraints_combine_too_many_domains_is_left_out_and_others_are_placed() {
    let pools = [node_pool("default")];
    let pods = [over_labels("spread", &MANY_DOMAINS), pod("web", 1000, 1024)];
    let solution = solve_checked(&problem(&pods, &pools));
    assert_eq!(solution.launches[0].pods, [1]);
    assert_eq!(
        reasons(&solution),
        ["its topology constraints, and those of pods that select it, have 19110 combinations of domains of \
          karpenter.k8s.aws/instance-cpu, karpenter.k8s.aws/instance-family, karpenter.k8s.aws/instance-size, node.kubernetes.io/instance-type, \
          topology.kubernetes.io/zone, which takes too much work for one pod"]
    );
    let expected = "use fewer labels, or labels with fewer values, in topology constraints";
    assert_eq!(advice(&problem(&pods, &pools)).remedies, [expected]);
}

#[test]
fn a_preference_that_combines_too_many_domains_is_given_up() {
    let pools = [node_pool("default")];
    let mut one = over_labels("spread", &MANY_DOMAINS);
    one.template_mut().labels = StringMap::new();
    one.template_mut().topology_spread.iter_mut().for_each(|spread| spread.hard = false);
    let pods = [one];
    assert_eq!(solve_checked(&problem(&pods, &pools)).launches.len(), 1);
}

#[test]
fn a_pod_that_takes_half_of_the_work_limit_is_left_out_and_others_are_placed() {
    let pools = [node_pool("default")];
    for hard in [true, false] {
        let mut pods = [over_labels("spread", &MANY_DOMAINS[..3]), pod("web", 1000, 1024)];
        pods[0].template_mut().topology_spread.iter_mut().for_each(|spread| spread.hard = hard);
        let whole = solve(&problem(&pods, &pools), &Options::default());
        assert_eq!(whole.unschedulable, []);
        let options = Options { max_work: Some(whole.work / 2), ..Options::default() };
        let solution = solve_with(&problem(&pods, &pools), &options);
        assert_eq!(solution.launches.len(), 1, "{hard}");
        assert_eq!(solution.launches[0].pods, [1], "{hard}");
        let [reason] = &reasons(&solution)[..] else { panic!("{solution:#?}") };
        assert!(reason.contains("have 910 combinations of domains"), "{hard}: {reason}");
    }
}

#[test]
fn preferences_of_a_running_pod_with_too_many_constraints_are_not_held() {
    let node = StringMap::from([(labels::ZONE.into(), ZONES[0].into())]);
    let held = |count: usize| {
        let one = crowded(KINDS[0].1, count);
        let running = [BoundPods { name: "node", labels: &node, taints: &[], pods: vec![&one] }];
        held_preferences(&running, ClusterFacts::default()).len()
    };
    assert_eq!((held(MAX_CONSTRAINTS), held(3_000)), (1, 0));
}
