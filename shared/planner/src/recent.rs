//! Deduplication of the Events that plans publish.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::events::LIFETIME;
use nodeless_model::object::ObjectEvent;
use nodeless_operations::events::{Rate, Used};
use nodeless_state::plans::PublishedEvents;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// The maximum number of Events of one plan about nodes that stay, two for each node. The rest are published with the next plans.
const KEPT_NODES: usize = 200;
/// The maximum number of Events of one plan about annotations and PodDisruptionBudgets of pods, because a workload may have
/// thousands. The rest are published with the next plans.
const ON_PODS: usize = 100;
/// The maximum number of Events `FailedScheduling` of one plan, and of those of one namespace with the same message: the pods of a workload
/// lack the same, and a plan of tens of thousands of pods must not end because it writes an Event for each.
const UNSCHEDULABLE: usize = 500;
const UNSCHEDULABLE_ALIKE: usize = 50;
/// The limit on the Events `Nominated` of a namespace, which Karpenter has for all together, and the maximum number of one plan: a plan for
/// thousands of pods must not write one for each. If a pod still waits, the next plans publish its Event.
const NOMINATIONS: Rate = Rate { burst: 10.0, per_second: 5.0 };
const NOMINATED: usize = 500;
/// How long a node stays before the reason is published. A node that joins is nominated for pods for less than that.
const STAYS: SignedDuration = SignedDuration::from_secs(50);
/// A reason that plans do not find again within this time has ended.
const ENDED_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// How often the table learns which Events about lasting states are published. A process that starts publishes again what was published
/// since.
const STORE_EVERY: SignedDuration = SignedDuration::from_mins(15);
/// The maximum number of Events of the record: 13 bytes of the table for each, and an item has at most 400 kB.
const STORED: usize = 20_000;

/// An Event that was published.
struct Published {
    /// A hash of the message.
    message: u32,
    /// The time until which no Event with its key is published.
    again: Timestamp,
    /// The time until which the same Event is not published. Later than `again` for lasting states, whose Event the API server keeps.
    expires: Timestamp,
}

/// The Events that were published, by a hash of their keys.
#[derive(Default)]
pub(super) struct Recent {
    published: HashMap<u64, Published>,
    /// The first and the last plan that found a reason for which a node stays.
    found: HashMap<u64, (Timestamp, Timestamp)>,
    nominations: Used,
    /// Whether the record of the table is read.
    is_read: bool,
    /// Whether an Event about a lasting state is published and not recorded.
    is_unrecorded: bool,
    recorded: Option<Timestamp>,
}

impl Recent {
    /// The events to publish now.
    pub(super) fn fresh(&mut self, events: Vec<ObjectEvent>, now: Timestamp) -> Vec<ObjectEvent> {
        self.published.retain(|_, published| published.expires > now);
        self.found.retain(|_, (_, last)| now.duration_since(*last) < ENDED_AFTER);
        let (mut kept_nodes, mut on_pods, mut nominated) = (0, 0, 0);
        let mut unschedulable = Unschedulable::default();
        let mut is_fresh = |event: &ObjectEvent| {
            let (of_node, of_pod) = (event.is_about_a_kept_node(), event.is_about_disruption_of_a_pod());
            let (nomination, namespace) = (event.is_a_nomination(), event.object.namespace.as_str());
            let key = hash(&event.dedupe_key());
            if of_node && !self.stays(key, now) {
                return false;
            }
            // A suppressed event keeps its time, so that a lasting condition is published again after that time.
            let limited = (of_node && kept_nodes == KEPT_NODES)
                || (of_pod && on_pods == ON_PODS)
                || (nomination && nominated == NOMINATED);
            if limited
                || self.is_published(key, event, now)
                || (nomination && !self.nominations.take(namespace, NOMINATIONS, now))
                || (event.is_about_an_unschedulable_pod() && !unschedulable.take(event))
            {
                return false;
            }
            kept_nodes += usize::from(of_node);
            on_pods += usize::from(of_pod);
            nominated += usize::from(nomination);
            self.note(key, event, now);
            true
        };
        in_turn(events).into_iter().filter(|event| is_fresh(event)).collect()
    }

    /// Whether plans have found the reason for which a node stays for long enough.
    fn stays(&mut self, key: u64, now: Timestamp) -> bool {
        let (first, last) = self.found.entry(key).or_insert((now, now));
        *last = now;
        now.duration_since(*first) >= STAYS
    }

    fn is_published(&self, key: u64, event: &ObjectEvent, now: Timestamp) -> bool {
        self.published.get(&key).is_some_and(|published| {
            let is_same = event.is_about_a_lasting_state() && published.message == message(event);
            now < if is_same { published.expires } else { published.again }
        })
    }

    fn note(&mut self, key: u64, event: &ObjectEvent, now: Timestamp) {
        let again = now.saturating_add(event.dedupe_timeout).unwrap_or(Timestamp::MAX);
        let is_lasting = event.is_about_a_lasting_state();
        let expires = if is_lasting { now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX) } else { again };
        self.is_unrecorded |= is_lasting;
        self.published.insert(key, Published { message: message(event), again, expires });
    }

    /// Whether the record of the table has to be read before these Events are published.
    pub(super) fn needs_record(&self, events: &[ObjectEvent]) -> bool {
        !self.is_read && events.iter().any(ObjectEvent::is_about_a_lasting_state)
    }

    /// Adds the Events of the record of the table.
    pub(super) fn read(&mut self, recorded: PublishedEvents) {
        self.is_read = true;
        for (second, events) in recorded {
            let Ok(at) = Timestamp::from_second(second) else { continue };
            let expires = at.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX);
            for (key, message) in events {
                self.published.entry(key).or_insert(Published { message, again: at, expires });
            }
        }
    }

    /// The record to write now, if it is time, and when it expires.
    pub(super) fn take_record(&mut self, now: Timestamp) -> Option<(PublishedEvents, Timestamp)> {
        let is_due = self.recorded.is_none_or(|recorded| now.duration_since(recorded) >= STORE_EVERY);
        if !self.is_unrecorded || !is_due {
            return None;
        }
        let mut lasting: Vec<_> =
            self.published.iter().filter(|(_, published)| published.expires > published.again).collect();
        lasting.sort_by_key(|(key, published)| (std::cmp::Reverse(published.expires), **key));
        let mut record = PublishedEvents::new();
        for (key, published) in lasting.into_iter().take(STORED) {
            let at = published.expires.saturating_sub(LIFETIME).unwrap_or(Timestamp::MIN);
            record.entry(at.as_second()).or_default().push((*key, published.message));
        }
        (self.is_unrecorded, self.recorded) = (false, Some(now));
        Some((record, now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX)))
    }
}

/// The first Event on an object of each namespace, then the second of each, and so on, so that the limits of a plan are for all namespaces.
fn in_turn(events: Vec<ObjectEvent>) -> Vec<ObjectEvent> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut turns: Vec<(usize, ObjectEvent)> = Vec::with_capacity(events.len());
    for event in events {
        let count = counts.entry(event.object.namespace.clone()).or_default();
        let turn = if event.object.namespace.is_empty() { 0 } else { *count };
        *count += 1;
        turns.push((turn, event));
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, event)| event).collect()
}

/// The Events about unschedulable pods that one plan publishes.
#[derive(Default)]
struct Unschedulable {
    all: usize,
    /// By a hash of the namespace and the message.
    alike: HashMap<u64, usize>,
}

impl Unschedulable {
    /// Whether another Event may be published. If so, it counts.
    fn take(&mut self, event: &ObjectEvent) -> bool {
        let alike = self.alike.entry(hash(&(&event.object.namespace, &event.message))).or_default();
        let allowed = self.all < UNSCHEDULABLE && *alike < UNSCHEDULABLE_ALIKE;
        self.all += usize::from(allowed);
        *alike += usize::from(allowed);
        allowed
    }
}

/// A hash that is the same in every process of a version. Another one only publishes Events again.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
fn message(event: &ObjectEvent) -> u32 {
    hash(&event.message) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::events::{
        DEDUPE_TIMEOUT, disruption_blocked, failed_scheduling, invalid_do_not_disrupt, nominated, unconsolidatable,
    };
    use nodeless_model::object::{ObjectRef, PodRef};

    fn pod(number: usize) -> PodRef {
        PodRef { namespace: "default".into(), name: number.to_string(), uid: String::new() }
    }

    fn minute(number: i64) -> Timestamp {
        Timestamp::from_second(60 * number).unwrap()
    }

    fn node(number: usize, why: &str) -> ObjectEvent {
        unconsolidatable(ObjectRef::node(&number.to_string(), ""), why)
    }

    /// The numbers of the Events that a plan in each of these minutes publishes.
    fn published(
        recent: &mut Recent,
        minutes: std::ops::Range<i64>,
        events: impl Fn(i64) -> Vec<ObjectEvent>,
    ) -> Vec<usize> {
        minutes.map(|number| recent.fresh(events(number), minute(number)).len()).collect()
    }

    #[test]
    fn what_happens_again_is_published_again_after_a_while_whatever_its_message() {
        let event = |number: i64| vec![failed_scheduling(&pod(1), &format!("{number} nodes are full")); 2];
        let mut recent = Recent::default();
        let all = published(&mut recent, 0..12, event);
        assert_eq!(all, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn a_thousand_nodes_that_stay_for_the_same_reasons_get_their_events_once_an_hour() {
        let all: Vec<ObjectEvent> = (0..1000).map(|number| node(number, "costs 1")).collect();
        let mut recent = Recent::default();
        let counts = published(&mut recent, 0..130, |_| all.clone());
        assert_eq!(counts[..8], [0, 200, 200, 200, 200, 200, 0, 0], "five plans write them");
        assert_eq!(counts[6..62].iter().sum::<usize>(), 0, "while the API server has them, none is written");
        assert_eq!(counts[62..67], [200; 5], "when it has deleted them, they are written again");
        assert_eq!(counts[67..123].iter().sum::<usize>(), 0);
    }

    #[test]
    fn a_changed_reason_is_published_after_the_deduplication_time() {
        let mut recent = Recent::default();
        let event = |number: i64| vec![node(1, if number < 5 { "costs 1" } else { "costs 2" })];
        let counts = published(&mut recent, 0..60, event);
        let minutes: Vec<usize> =
            counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, _)| at).collect();
        assert_eq!(minutes, [1, 16]);
    }

    #[test]
    fn a_reason_of_a_moment_is_not_published() {
        let mut recent = Recent::default();
        let event = |number: i64| match number {
            0 => vec![disruption_blocked(ObjectRef::node("1", ""), "It is nominated for pods")],
            _ => vec![node(1, "costs 1")],
        };
        assert_eq!(published(&mut recent, 0..4, event), [0, 0, 1, 0]);
    }

    #[test]
    fn a_process_that_starts_does_not_publish_what_the_last_one_did() {
        let all: Vec<ObjectEvent> = (0..300).map(|number| node(number, "costs 1")).collect();
        let mut first = Recent::default();
        assert!(first.needs_record(&all) && !first.needs_record(&[nominated(&pod(1), "node/a")]));
        assert_eq!(published(&mut first, 0..2, |_| all.clone()), [0, 200]);
        let (record, expires) = first.take_record(minute(1)).unwrap();
        assert_eq!((record[&60].len(), expires), (200, minute(62)));
        assert_eq!(published(&mut first, 2..3, |_| all.clone()), [100]);
        assert!(first.take_record(minute(2)).is_none(), "it is written a moment ago");
        let (record, _) = first.take_record(minute(16)).unwrap();
        assert_eq!([record[&60].len(), record[&120].len()], [200, 100]);
        assert!(first.take_record(minute(40)).is_none(), "nothing is new");

        let mut second = Recent::default();
        second.read(record);
        assert!(!second.needs_record(&all));
        let counts = published(&mut second, 20..66, |_| all.clone());
        assert_eq!(counts[..42].iter().sum::<usize>(), 0);
        assert_eq!(counts[42..45], [200, 100, 0], "from minute 62 on");
    }

    #[test]
    fn events_on_many_pods_are_spread_over_plans() {
        let all: Vec<ObjectEvent> =
            (0..250).map(|number| invalid_do_not_disrupt(&pod(number), "it is ignored")).collect();
        let mut recent = Recent::default();
        let counts =
            (0..4).map(|plan| recent.fresh(all.clone(), Timestamp::UNIX_EPOCH + DEDUPE_TIMEOUT * plan / 5).len());
        assert_eq!(counts.collect::<Vec<_>>(), [100, 100, 50, 0]);
    }

    #[test]
    fn unschedulable_pods_of_each_namespace_and_reason_have_events_whatever_their_number() {
        let of = |namespace: &str, number: usize, why: &str| {
            let pod = PodRef { namespace: namespace.into(), name: number.to_string(), uid: String::new() };
            failed_scheduling(&pod, why)
        };
        let many = |namespace: &str, why: &str| (0..1000).map(|number| of(namespace, number, why)).collect::<Vec<_>>();
        let mut recent = Recent::default();
        let all = [many("a", "no GPU"), many("a", "no zone"), many("b", "no GPU")].concat();
        let counts: Vec<usize> = published(&mut recent, 0..2, |_| all.clone());
        assert_eq!(counts, [150, 150], "the next plan publishes others");
        let published = recent.fresh(all, minute(2));
        let of_the_first = published.iter().filter(|event| event.object.namespace == "a").count();
        assert_eq!((published.len(), of_the_first), (150, 100));
        let reasons = (0..30).flat_map(|reason| many("c", &format!("reason {reason}"))).collect();
        assert_eq!(recent.fresh(reasons, minute(3)).len(), UNSCHEDULABLE);
    }

    /// Whatever the pods of the namespace that comes first lack or have.
    #[test]
    fn the_events_of_a_namespace_do_not_suppress_those_of_others() {
        let of = |namespace: &str, number: usize| PodRef {
            namespace: namespace.into(),
            name: number.to_string(),
            uid: String::new(),
        };
        let kinds: [fn(&PodRef) -> ObjectEvent; 3] = [
            |pod| nominated(pod, "nodeclaim/a"),
            |pod| failed_scheduling(pod, &format!("lacks {}", pod.name)),
            |pod| invalid_do_not_disrupt(pod, "it is ignored"),
        ];
        for event in kinds {
            let many = (0..2000).map(|number| event(&of("a", number)));
            let all: Vec<ObjectEvent> = many.chain((0..10).map(|number| event(&of("b", number)))).collect();
            let mut recent = Recent::default();
            let published = recent.fresh(all, minute(0));
            assert_eq!(
                published.iter().filter(|event| event.object.namespace == "b").count(),
                10,
                "{:?}",
                published[0]
            );
            assert!(published.len() <= UNSCHEDULABLE);
        }
    }

    #[test]
    fn nominations_of_many_pods_are_limited() {
        let all: Vec<ObjectEvent> = (0..30).map(|number| nominated(&pod(number), "nodeclaim/a")).collect();
        let mut recent = Recent::default();
        let mut published = |second| recent.fresh(all.clone(), Timestamp::from_second(second).unwrap()).len();
        assert_eq!([published(0), published(0), published(1), published(60), published(61)], [10, 0, 5, 10, 5]);
        let of = |number: usize| PodRef { namespace: (number / 10).to_string(), ..pod(number) };
        let everywhere = (0..1000).map(|number| nominated(&of(number), "nodeclaim/a")).collect();
        assert_eq!(recent.fresh(everywhere, minute(9)).len(), NOMINATED, "of all namespaces");
    }
}
