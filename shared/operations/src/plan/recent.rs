//! Deduplication of the Events that plans publish.

use crate::events::{Rate, Used};
use jiff::Timestamp;
use nodeless_model::object::{DedupeKey, ObjectEvent};
use std::collections::HashMap;

/// The maximum number of Events of one plan about nodes that stay, two for each node. The rest are published with the next plans.
const KEPT_NODES: usize = 200;
/// The maximum number of Events of one plan about annotations and PodDisruptionBudgets of pods, because a workload may have
/// thousands. The rest are published with the next plans.
const ON_PODS: usize = 100;
/// The limit on the Events `Nominated`, as in Karpenter: a plan for thousands of pods must not write one for each. If a pod still
/// waits, the next plans publish its Event.
const NOMINATIONS: Rate = Rate { burst: 10.0, per_second: 5.0 };

/// The keys of the Events that were published, each with the time until which an Event with that key is not published again.
#[derive(Default)]
pub(super) struct Recent {
    published: HashMap<DedupeKey, Timestamp>,
    nominations: Used,
}

impl Recent {
    /// The events to publish now.
    pub(super) fn fresh(&mut self, events: Vec<ObjectEvent>, now: Timestamp) -> Vec<ObjectEvent> {
        self.published.retain(|_, until| *until > now);
        let (mut kept_nodes, mut on_pods) = (0, 0);
        let mut is_fresh = |event: &ObjectEvent| {
            let (of_node, of_pod) = (event.is_about_a_kept_node(), event.is_about_disruption_of_a_pod());
            let key = event.dedupe_key();
            // A suppressed event keeps its time, so that a lasting condition is published again after that time.
            let limited = (of_node && kept_nodes == KEPT_NODES) || (of_pod && on_pods == ON_PODS);
            if limited
                || self.published.contains_key(&key)
                || (event.is_a_nomination() && !self.nominations.take(NOMINATIONS, now))
            {
                return false;
            }
            kept_nodes += usize::from(of_node);
            on_pods += usize::from(of_pod);
            self.published.insert(key, now.saturating_add(event.dedupe_timeout).unwrap_or(Timestamp::MAX));
            true
        };
        events.into_iter().filter(|event| is_fresh(event)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::events::{DEDUPE_TIMEOUT, disruption_blocked, invalid_do_not_disrupt, nominated};
    use nodeless_model::object::{ObjectRef, PodRef};

    #[test]
    fn what_lasts_is_published_again_after_a_while_whatever_its_message() {
        let event = |minute: u32| {
            disruption_blocked(ObjectRef::node("a", ""), &format!("a PodDisruptionBudget blocks {minute} pods"))
        };
        let mut recent = Recent::default();
        let published = (0..12).filter(|minute| {
            let now = Timestamp::UNIX_EPOCH + DEDUPE_TIMEOUT * *minute / 5;
            !recent.fresh(vec![event(*minute), event(*minute)], now).is_empty()
        });
        assert_eq!(published.collect::<Vec<_>>(), [0, 5, 10]);
    }

    #[test]
    fn events_on_many_pods_are_spread_over_plans() {
        let of_pod = |number: usize| {
            let pod = PodRef { namespace: "default".into(), name: number.to_string(), uid: String::new() };
            invalid_do_not_disrupt(&pod, "it is ignored")
        };
        let all: Vec<ObjectEvent> = (0..250).map(of_pod).collect();
        let mut recent = Recent::default();
        let published =
            (0..4).map(|minute| recent.fresh(all.clone(), Timestamp::UNIX_EPOCH + DEDUPE_TIMEOUT * minute / 5).len());
        assert_eq!(published.collect::<Vec<_>>(), [100, 100, 50, 0]);
    }

    #[test]
    fn nominations_of_many_pods_are_limited() {
        let of_pod = |number: usize| {
            let pod = PodRef { namespace: "default".into(), name: number.to_string(), uid: String::new() };
            nominated(&pod, "nodeclaim/a")
        };
        let all: Vec<ObjectEvent> = (0..30).map(of_pod).collect();
        let mut recent = Recent::default();
        let mut published = |second| recent.fresh(all.clone(), Timestamp::from_second(second).unwrap()).len();
        assert_eq!([published(0), published(0), published(1), published(60), published(61)], [10, 0, 5, 10, 5]);
    }
}
