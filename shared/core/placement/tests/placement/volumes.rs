//! Refinement keeps the limits of volumes of planned nodes.

use crate::support::*;
use nodeless_model::*;
use nodeless_placement::{Policy, plan};
use nodeless_scheduling::{Options, Problem};

/// Pods of several sizes, of which every second one mounts a volume.
fn pods(count: usize) -> Vec<Pod> {
    let one = |index: usize| {
        let mut pod = pod(&format!("pod-{index:03}"), [50, 300, 700][index % 3], 200);
        if index.is_multiple_of(2) {
            pod.template_mut().volume_claims =
                vec![pod::VolumeClaim { claim_name: format!("data-{index:03}"), ephemeral: false }];
        }
        pod
    };
    (0..count).map(one).collect()
}

#[test]
fn plans_keep_the_limits_of_volumes() {
    for (count, limit) in [(120, 25), (60, 3), (40, 1), (90, 7)] {
        let pods = pods(count);
        let mut world = TestCluster::new(vec![node_pool("default")]);
        let limited = world.types.iter().map(|kind| InstanceType { ebs_volumes: Some(limit), ..kind.clone() });
        world.types = limited.collect();
        for claim in pods.iter().flat_map(|pod| &pod.template.volume_claims) {
            let key = format!("default/{}", claim.claim_name);
            world.volumes.insert(key.clone(), Vec::new());
            world.volume_drivers.insert(key, EBS_DRIVER.into());
        }
        let cluster = world.cluster();
        let problem = Problem {
            pods: pods.iter().collect(),
            node_pools: cluster.node_pools.clone(),
            facts: cluster.facts,
            ..Problem::default()
        };
        let options = Options::default();
        let planned = plan(&problem, &Policy::new(&options, true));
        assert_eq!(planned.unschedulable, [], "{limit}");
        let wrong = nodeless_checker::violations(&problem, &planned, &options);
        assert!(wrong.is_empty(), "{limit}: {wrong:#?}");
        let nodes = (count / 2).div_ceil(limit as usize);
        assert!(planned.launches.len() >= nodes, "{limit}");
    }
}
