//! Volumes that bind pods to zones, and how many a node attaches.

use super::*;
use nodeless_model::pod::VolumeClaim;

/// A pod with volumes, and where they can be used.
fn with_volumes(world: &mut TestCluster, claims: &[(&str, &[&str])]) {
    for (claim, zones) in claims {
        world.places[0].pods[0]
            .template_mut()
            .volume_claims
            .push(VolumeClaim { claim_name: (*claim).into(), ephemeral: false });
        let zone = |zone: &&str| Requirements::from([(labels::ZONE, Requirement::one_of([*zone]))]);
        let topology = zones.iter().map(zone).collect();
        world.volumes.insert(format!("default/{claim}"), topology);
    }
}

#[test]
fn volumes_bind_pods_to_their_zones() {
    let decide = |claims: &[(&str, &[&str])]| {
        let mut world = world();
        going(&mut world, ZONES[0], vec![web("mover")]);
        staying(&mut world, ZONES[1], Vec::new());
        with_volumes(&mut world, claims);
        goes(&world)
    };
    assert!(decide(&[("anywhere", &[])]));
    assert!(!decide(&[("here", &ZONES[..1])]));
    assert!(decide(&[("either", &ZONES[..2])]), "the alternative");
    assert!(!decide(&[("either", &ZONES[..2]), ("here", &ZONES[..1])]), "they have to agree");
    let mut unknown = pair(web("mover"));
    with_volumes(&mut unknown, &[("lost", &[])]);
    unknown.volumes.clear();
    assert!(!goes(&unknown), "it is unknown where the claim can be used");
}

#[test]
fn a_replacement_lies_where_the_volumes_are() {
    let mut world = oversized(vec![web("a")]);
    with_volumes(&mut world, &[("data", &ZONES[1..2])]);
    let zone =
        |world: &TestCluster| replaced(world).unwrap().1.replacements[0].launch.requirements.get(labels::ZONE).cloned();
    assert_eq!(zone(&world), Some(Requirement::one_of([ZONES[1]])));
    world.places[0].pods[0].template_mut().volume_claims.clear();
    assert_eq!(zone(&world), Some(Requirement::one_of(ZONES)));
}

#[test]
fn nodes_attach_no_more_volumes_than_their_drivers_allow() {
    let decide = |limit: u32| {
        let mut world = pair(web("mover"));
        with_volumes(&mut world, &[("moving", &[])]);
        world.places[1].pods[0].template_mut().volume_claims =
            vec![VolumeClaim { claim_name: "there".into(), ephemeral: false }];
        for claim in ["moving", "there"] {
            world.volume_drivers.insert(format!("default/{claim}"), "ebs".into());
        }
        world.volume_limits.insert("node-00001".into(), [("ebs".to_owned(), limit)].into());
        goes(&world)
    };
    assert!(!decide(1));
    assert!(decide(2));
}

#[test]
fn a_replacement_attaches_the_volumes_of_its_pods() {
    let decide = |limit: u32| {
        let mut world = oversized(vec![web("a")]);
        with_volumes(&mut world, &[("one", &[]), ("two", &[])]);
        for claim in ["one", "two"] {
            world.volume_drivers.insert(format!("default/{claim}"), EBS_DRIVER.into());
        }
        let limit_of = |kind: &InstanceType| if kind.name.ends_with(".large") { limit } else { 25 };
        let types = world.types.iter().map(|kind| InstanceType { ebs_volumes: Some(limit_of(kind)), ..kind.clone() });
        world.types = types.collect();
        let launch = &replaced(&world).unwrap().1.replacements[0].launch;
        launch.instance_types.iter().any(|kind| kind.name.ends_with(".large"))
    };
    assert!(!decide(1));
    assert!(decide(2));
}

#[test]
fn ephemeral_volumes_bind_pods_to_their_zones() {
    let decide = |zones: Option<&[&str]>| {
        let mut world = world();
        going(&mut world, ZONES[0], vec![web("mover")]);
        staying(&mut world, ZONES[1], Vec::new());
        with_volumes(&mut world, &[("mover-scratch", zones.unwrap_or_default())]);
        world.places[0].pods[0].template_mut().volume_claims[0].ephemeral = true;
        if zones.is_none() {
            world.volumes.clear();
        }
        goes(&world)
    };
    assert!(decide(Some(&ZONES[..2])));
    assert!(!decide(Some(&ZONES[..1])));
    assert!(!decide(None), "Kubernetes has not made the claim");
}
