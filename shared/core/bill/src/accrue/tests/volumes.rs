//! The costs of volumes.

use super::*;

/// A claim whose volumes cost a dollar an hour.
fn with_volumes(mut claim: NodeClaim) -> NodeClaim {
    claim.spec.volumes_per_month = Some(730.0);
    claim
}

#[test]
fn volumes_are_counted_beside_the_other_amounts() {
    let open = Open::begin(at("12:00:00"));
    let claims = [with_volumes(claim("a", Some(at("12:00:00")))), claim("b", Some(at("12:00:00")))];
    let node = with_volumes(claim("c", Some(at("12:00:00"))));
    let node = terminated(node, TerminationReason::Empty, at("12:14:00"), at("12:15:00"));
    let ended = EndedNode::new(&node, at("12:16:00")).unwrap();
    let first = step(Some(&open), at("12:30:00"), &claims, &[], &[ended]);
    let record = &first.open.hours[0];
    assert!(close_to(record.volumes.dollars, 0.75) && close_to(record.volumes.seconds, 2700.0), "{:?}", record.volumes);
    assert!(close_to(record.dollars(), 1.25 * price()), "{record:?}");
    assert!(close_to(first.pools[0].dollars_today, 1.25 * price()), "{:?}", first.pools);
}

#[test]
fn volumes_of_a_stopped_warm_node_are_counted_until_it_ends() {
    let open = Open::begin(at("12:00:00"));
    let mut warm = with_volumes(claim("a", Some(at("12:00:00"))));
    warm.set_condition(condition::REGISTERED, ConditionStatus::Unknown, reason::STOPPED, "", at("12:15:00"));
    warm.phase = Phase::Stopped;
    let first = step(Some(&open), at("12:30:00"), std::slice::from_ref(&warm), &[], &[]);
    let hour = &first.open.hours[0];
    assert!(
        hour.seconds() == 900.0 && close_to(hour.volumes.dollars, 0.5) && hour.volumes.seconds == 900.0,
        "{hour:?}"
    );
    // An hour in which it only is stopped is recorded, too.
    let second = step(Some(&first.open), at("14:00:00"), &[warm], &[], &[]);
    let dollars: Vec<f64> = second.closed.iter().map(|hour| hour.volumes.dollars).collect();
    assert!(dollars.len() == 2 && close_to(dollars[0], 1.0) && close_to(dollars[1], 1.0), "{dollars:?}");
    assert_eq!(second.closed[1].seconds(), 0.0);
}
