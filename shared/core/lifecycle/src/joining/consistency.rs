//! Whether a node has the capacity of its instance type.

use jiff::Timestamp;
use nodeless_model::claim::condition;
use nodeless_model::resources::{format_quantity, may_be_devices};
use nodeless_model::{ConditionStatus, Node, NodeClaim};

/// The minimum percentage of the expected capacity of a node, as in Karpenter.
const MIN_PERCENT: i128 = 90;

/// A message with the resources of the claim that the node lacks; `None` if the node is consistent. An extended resource that the kubelet of
/// an initialized node never reported is devices of a driver.
#[must_use]
pub fn inconsistency(claim: &NodeClaim, node: &Node) -> Option<String> {
    let is_reported = |name: &str| node.capacity.contains(name) || !may_be_devices(name);
    let requested = claim.spec.requests.iter().filter(|(name, desired)| !desired.is_zero() && is_reported(name));
    let lacks = requested.filter_map(|(name, _)| {
        let (expected, found) = (claim.status.capacity.get(name), node.capacity.get(name));
        let minimum = i128::from(expected.milli()) * MIN_PERCENT;
        (i128::from(found.milli()) * 100 < minimum).then(|| {
            let [expected, found] = [expected, found].map(|quantity| format_quantity(name, quantity));
            format!("expected {expected} of resource {name}, but found {found}")
        })
    });
    let lacks: Vec<String> = lacks.collect();
    (!lacks.is_empty()).then(|| lacks.join("; "))
}

/// Sets the condition `ConsistentStateFound`, and returns whether that changed it.
pub fn set_consistent(claim: &mut NodeClaim, node: &Node, now: Timestamp) -> bool {
    let (status, reason, message) = match inconsistency(claim, node) {
        None => (ConditionStatus::True, condition::CONSISTENT_STATE_FOUND, String::new()),
        Some(why) => (ConditionStatus::False, "ConsistencyCheckFailed", why),
    };
    let present = claim.condition(condition::CONSISTENT_STATE_FOUND);
    if present.is_some_and(|present| present.status == status && present.message == message) {
        return false;
    }
    claim.set_condition(condition::CONSISTENT_STATE_FOUND, status, reason, &message, now);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::{Quantity, ResourceList};

    fn cpu(milli: i64) -> ResourceList {
        ResourceList::from([("cpu", Quantity::from_milli(milli))])
    }

    #[test]
    fn a_tenth_less_than_promised_is_well_and_more_is_not() {
        let mut claim = crate::tests::claim(nodeless_model::Phase::Initialized);
        claim.spec.requests = cpu(500);
        claim.status.capacity = cpu(2000);
        let node = |milli| Node { capacity: cpu(milli), ..Node::default() };
        assert_eq!(inconsistency(&claim, &node(1800)), None);
        let why = inconsistency(&claim, &node(1799)).unwrap();
        assert_eq!(why, "expected 2 of resource cpu, but found 1799m");
        // Resources that no pod requested may be missing.
        claim.status.capacity.set("memory", Quantity::from_mebibytes(100));
        assert_eq!(inconsistency(&claim, &node(2000)), None);
        // The kubelet keeps a resource whose device plugin has stopped, with zero, and never reports those of a driver without one.
        claim.spec.requests.set("nvidia.com/gpu", Quantity::from_units(1));
        claim.status.capacity.set("nvidia.com/gpu", Quantity::from_units(1));
        assert_eq!(inconsistency(&claim, &node(2000)), None);
        let stopped = Node { capacity: cpu(2000).with("nvidia.com/gpu", Quantity::default()), ..Node::default() };
        let why = inconsistency(&claim, &stopped).unwrap();
        assert_eq!(why, "expected 1 of resource nvidia.com/gpu, but found 0");
        claim.spec.requests.remove("nvidia.com/gpu");

        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(set_consistent(&mut claim, &node(1000), at(1)));
        assert!(!set_consistent(&mut claim, &node(1000), at(2)));
        assert!(set_consistent(&mut claim, &node(900), at(2)), "the message changes with what is missing");
        assert!(set_consistent(&mut claim, &node(2000), at(3)));
        assert!(claim.has_condition(condition::CONSISTENT_STATE_FOUND));
    }
}
