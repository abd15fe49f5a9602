//! DaemonSets and their share of nodes.

use super::*;

#[test]
fn daemon_sets_take_their_share_where_they_run() {
    let daemon = |name: &str, cpu, arch: Option<&str>| {
        let mut template = pod(name, cpu, 128);
        if let Some(arch) = arch {
            template.template_mut().node_selector.insert(labels::ARCH.into(), arch.into());
        }
        DaemonSet { namespace: "kube-system".into(), name: name.into(), template, ..DaemonSet::default() }
    };
    let pods = with(|_| ());
    let pools = [node_pool("default")];
    // 1 cpu and 0.95 for the daemon leave too little on a large with 1.92.
    let everywhere = [daemon("agent", 950, None)];
    let solution = solve_checked(&Problem { daemon_sets: &everywhere, ..problem(&pods, &pools) });
    assert_eq!(chosen(&solution), ["c9.xlarge"]);
    assert_eq!(solution.launches[0].requests.get("cpu"), Quantity::from_milli(1950));
    // Where the daemon does not run, a large still does.
    let elsewhere = [daemon("agent", 950, Some("amd64"))];
    let solution = solve_checked(&Problem { daemon_sets: &elsewhere, ..problem(&pods, &pools) });
    assert_eq!(chosen(&solution), ["m9g.large"]);
}

#[test]
fn daemon_sets_weigh_on_the_instance_types_that_they_fit() {
    use Operator::{Gt, In, NotIn};
    let pods = with(|_| ());
    let pools = [node_pool("default")];
    for (what, terms, expected) in [
        ("a family", vec![vec![term(labels::INSTANCE_FAMILY, In, &["c9"])]], "m9g.large"),
        ("all families but one", vec![vec![term(labels::INSTANCE_FAMILY, NotIn, &["r9"])]], "r9.large"),
        ("large types only", vec![vec![term(labels::INSTANCE_CPU, Gt, &["2"])]], "c9.large"),
        (
            "either",
            vec![vec![term(labels::INSTANCE_FAMILY, In, &["c9"])], vec![term(labels::ARCH, In, &["arm64"])]],
            "m9.large",
        ),
        ("a label of no node", vec![vec![term("team", In, &["a"])]], "c9.large"),
        (
            "a label that nodes get when they are ready",
            vec![vec![term(labels::INITIALIZED, In, &["true"])]],
            "c9.xlarge",
        ),
    ] {
        // 1 cpu and 0.95 for the daemon leave too little on a large with 1.92.
        let mut template = pod("agent", 950, 128);
        template.template_mut().required_node_affinity = terms;
        let daemons = [DaemonSet { namespace: "d".into(), name: "agent".into(), template, ..DaemonSet::default() }];
        let solution = solve_checked(&Problem { daemon_sets: &daemons, ..problem(&pods, &pools) });
        assert_eq!(chosen(&solution), [expected], "{what}");
    }
}

#[test]
fn daemon_sets_run_only_where_they_tolerate_the_taints() {
    let mut pool = node_pool("default");
    pool.template.taints =
        vec![Taint::new("team", TaintEffect::NoSchedule), Taint::new("slow", TaintEffect::PreferNoSchedule)];
    pool.template.startup_taints = vec![Taint::new("starting", TaintEffect::NoExecute)];
    let pools = [pool];
    let pods = with(|pod| {
        pod.template_mut().tolerations =
            vec![Toleration { operator: taint::TolerationOperator::Exists, ..Toleration::default() }];
    });
    let tolerating = |keys: &[&str]| -> Vec<Toleration> {
        let exists = |key: &&str| Toleration {
            key: (*key).into(),
            operator: taint::TolerationOperator::Exists,
            ..Toleration::default()
        };
        keys.iter().map(exists).collect()
    };
    for (keys, expected) in [(vec![], "c9.large"), (vec!["other"], "c9.large"), (vec!["team"], "c9.xlarge")] {
        let mut template = pod("agent", 950, 128);
        template.template_mut().tolerations = tolerating(&keys);
        let daemons = [DaemonSet { namespace: "d".into(), name: "agent".into(), template, ..DaemonSet::default() }];
        let solution = solve_checked(&Problem { daemon_sets: &daemons, ..problem(&pods, &pools) });
        assert_eq!(chosen(&solution), [expected], "{keys:?}");
    }
}
