//! Volumes that bind pods to zones.

use super::*;
use nodeless_model::pod::VolumeClaim;
use std::collections::BTreeMap;

#[test]
fn volumes_bind_to_their_zone() {
    let pods = with(|pod| {
        pod.template_mut().volume_claims = vec![VolumeClaim { claim_name: "data".into(), ephemeral: false }];
    });
    let pools = [node_pool("default")];
    let mut problem = problem(&pods, &pools);
    assert_eq!(
        reasons(&solve_checked(&problem)),
        ["the topology of persistent volume claim default/data is not known, so no zone can be chosen"]
    );
    let zone = Requirements::from([(labels::ZONE, Requirement::one_of(["us-east-1b"]))]);
    let volumes = BTreeMap::from([("default/data".to_owned(), vec![zone])]);
    problem.facts.volumes = &volumes;
    assert_eq!(solve_checked(&problem).launches[0].offering.zone, "us-east-1b");
}

#[test]
fn a_claim_that_does_not_exist_is_named() {
    let pods = with(|pod| {
        pod.template_mut().resource_claims = vec![pod::ResourceClaim { name: "gpu".into(), ..Default::default() }];
    });
    let pools = [node_pool("default")];
    assert_eq!(reasons(&solve_checked(&problem(&pods, &pools))), ["ResourceClaim default/gpu does not exist"]);
}

#[test]
fn volumes_have_alternatives_and_have_to_agree() {
    let zone = |zones: &[&str]| Requirements::from([(labels::ZONE, Requirement::one_of(zones.iter().copied()))]);
    let mounting = |claims: &[&str]| {
        with(|pod| {
            pod.template_mut().volume_claims =
                claims.iter().map(|claim| VolumeClaim { claim_name: (*claim).into(), ephemeral: false }).collect();
        })
    };
    let pools = [node_pool("default")];
    for (claims, expected) in [
        (vec!["b-or-c", "c-or-a"], Some("us-east-1c")),
        (vec!["anywhere", "b-or-c", "only-b"], Some("us-east-1b")),
        (vec!["only-b", "c-or-a"], None),
    ] {
        let pods = mounting(&claims);
        let volumes = BTreeMap::from([
            ("default/anywhere".to_owned(), vec![]),
            ("default/b-or-c".to_owned(), vec![zone(&["us-east-1b"]), zone(&["us-east-1c"])]),
            ("default/c-or-a".to_owned(), vec![zone(&["us-east-1c", "us-east-1a"])]),
            ("default/only-b".to_owned(), vec![zone(&["us-east-1b"])]),
        ]);
        let mut problem = problem(&pods, &pools);
        problem.facts.volumes = &volumes;
        let solution = solve_checked(&problem);
        assert_eq!(solution.launches.first().map(|launch| launch.offering.zone.as_str()), expected, "{claims:?}");
        if expected.is_none() {
            assert_eq!(reasons(&solution), ["persistent volume claims only-b, c-or-a cannot be used on one node"]);
        }
    }
}
