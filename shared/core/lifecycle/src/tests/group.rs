use super::*;
use crate::group::{Owners, assign, owned_by};

fn member(index: u32, phase: Phase) -> NodeClaim {
    let mut claim = reserved();
    claim.name = format!("default-{index}");
    claim.spec.launch_group = Some(LaunchGroup { id: "group".into(), index, size: 4, all_or_none: false });
    claim.phase = phase;
    claim
}

fn members() -> Vec<NodeClaim> {
    (0..4).map(|index| member(index, Phase::Reserved)).collect()
}

fn listed(ids: &[&str]) -> Vec<Instance> {
    ids.iter().map(|id| instance(id, InstanceState::Running)).collect()
}

/// The claim of each of these instances, by its place; `-` where it has no owner.
fn shares(owners: &Owners, ids: &[&str]) -> String {
    let of = |id: &&str| owners.get(*id).map_or("-", |owner| &owner["default-".len()..]).to_owned();
    ids.iter().map(of).collect::<Vec<_>>().join("")
}

const ALL: [&str; 4] = ["i-a", "i-b", "i-c", "i-d"];

#[test]
fn no_instance_changes_its_owner_whatever_is_listed_when() {
    // Each order in which a list of four instances can grow.
    let mut orders = vec![vec![]];
    for _ in 0..4 {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<&str>| {
                let rest = ALL.into_iter().filter(|id| !order.contains(id)).collect::<Vec<_>>();
                rest.into_iter().map(move |id| [order.clone(), vec![id]].concat())
            })
            .collect();
    }
    assert_eq!(orders.len(), 24);
    for order in orders {
        let mut owners = Owners::new();
        for seen in 1..=4 {
            let next = assign(&owners, &members(), &listed(&order[..seen])).expect("one more is known");
            assert!(owners.iter().all(|(id, owner)| next.get(id) == Some(owner)), "{order:?}: {owners:?}, {next:?}");
            owners = next;
            // Who sees less than what was seen before changes nothing.
            assert_eq!(assign(&owners, &members(), &listed(&order[..seen - 1])), None);
        }
        let all: std::collections::BTreeSet<&String> = owners.values().collect();
        assert_eq!(all.len(), 4, "each member has one: {owners:?}");
    }
}

#[test]
fn more_instances_than_members_have_no_owner() {
    let owners = assign(&Owners::new(), &members()[..2], &listed(&ALL)).unwrap();
    assert_eq!(shares(&owners, &ALL), "01--");
}

#[test]
fn members_that_want_a_node_come_before_those_that_leave() {
    let mut members = members();
    members[0].phase = Phase::Terminating;
    let owners = assign(&Owners::new(), &members, &listed(&ALL[..3])).unwrap();
    assert_eq!(shares(&owners, &ALL), "123-");
    let owners = assign(&owners, &members, &listed(&ALL)).unwrap();
    assert_eq!(shares(&owners, &ALL), "1230", "so that it is terminated with it");
    let ending = vec![instance("i-a", InstanceState::ShuttingDown), instance("i-b", InstanceState::Terminated)];
    let owners = assign(&Owners::new(), &members, &ending).unwrap();
    assert_eq!(shares(&owners, &ALL), "0---", "one that ends is no node for anybody");
}

#[test]
fn a_record_takes_precedence() {
    let mut members = members();
    members[2].status.instance = claim(Phase::Launched).status.instance;
    let own = members[2].status.instance.as_ref().unwrap().id.clone();
    let owners = assign(&Owners::new(), &members, &listed(&[&own, "i-z"])).unwrap();
    assert_eq!(shares(&owners, &[&own, "i-z"]), "20");
    assert_eq!(assign(&owners, &members, &listed(&[&own, "i-z"])), None);
}

#[test]
fn what_belonged_to_a_member_that_left_without_it_goes_to_another() {
    let owners = assign(&Owners::new(), &members(), &listed(&ALL[..3])).unwrap();
    assert_eq!((shares(&owners, &ALL).as_str(), owned_by(&owners, "default-3")), ("012-", None));
    let mut left = members();
    left[0].phase = Phase::Terminating;
    assert_eq!(assign(&owners, &left, &listed(&ALL[..3])), None, "it may still take it, and has to end it then");
    left[0].phase = Phase::Gone;
    assert_eq!(shares(&assign(&owners, &left, &listed(&ALL[..3])).unwrap(), &ALL), "312-");
    assert_eq!(shares(&assign(&owners, &left[1..], &listed(&ALL[..3])).unwrap(), &ALL), "312-");
    left[3].status.launch_denied = true;
    assert_eq!(assign(&owners, &left, &listed(&ALL[..3])), None, "EC2 reported that there is none for it");
}

/// The table was restored to a time before the launch. One of the claims has ended its instance since, and waits for another.
#[test]
fn an_instance_with_the_tag_of_a_claim_belongs_to_that_claim() {
    let tagged = |id: &str, owner: &str| {
        let mut one = instance(id, InstanceState::Running);
        one.tags.insert(labels::NODE_CLAIM_TAG.into(), owner.into());
        one
    };
    let members = [member(0, Phase::Terminating), member(1, Phase::Reserved)];
    let of_the_first = tagged("i-a", "default-0");
    let owners = assign(&Owners::new(), &members, std::slice::from_ref(&of_the_first)).unwrap();
    assert_eq!(shares(&owners, &["i-a"]), "0");
    let crossed = [tagged("i-a", "default-1"), tagged("i-b", "default-0")];
    assert_eq!(shares(&assign(&Owners::new(), &members, &crossed).unwrap(), &["i-a", "i-b"]), "10");
    // A recorded owner keeps its instance, and no claim gets two.
    let recorded = Owners::from([("i-a".into(), "default-1".into())]);
    assert_eq!(assign(&recorded, &members, &[of_the_first]), None);
    let twice = [tagged("i-a", "default-0"), tagged("i-b", "default-0")];
    assert_eq!(shares(&assign(&Owners::new(), &members, &twice).unwrap(), &["i-a", "i-b"]), "01");
    let other = [tagged("i-a", "others-0")];
    assert_eq!(shares(&assign(&Owners::new(), &members, &other).unwrap(), &["i-a"]), "1");
}
