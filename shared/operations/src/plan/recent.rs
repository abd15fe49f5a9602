//! What was published lately, so that it is not said again and again.

use jiff::Timestamp;
use nodeless_model::object::ObjectEvent;
use std::collections::HashMap;
use std::time::Duration;

/// How long the same event is not published again.
const QUIET: Duration = Duration::from_mins(5);
/// How long it is not said again why a node cannot be consolidated, even if it is for another reason, as in Karpenter.
const QUIET_ON_NODES: Duration = Duration::from_mins(15);
/// How many events of one plan say why nodes stay, two for each node: those that are left come with the plans that follow.
const STAYING: usize = 200;
/// How many events of one plan are about annotations and PodDisruptionBudgets of pods: a workload may have thousands. Those that
/// are left come with the plans that follow, too.
const ON_PODS: usize = 100;

/// Events that were published a short while ago, each with the time until which it is not said again.
#[derive(Default)]
pub(super) struct Recent {
    told: HashMap<ObjectEvent, Timestamp>,
}

impl Recent {
    /// Those of the events that were not published lately.
    pub(super) fn fresh(&mut self, events: Vec<ObjectEvent>, now: Timestamp) -> Vec<ObjectEvent> {
        self.told.retain(|_, until| *until > now);
        let (mut staying, mut on_pods) = (0, 0);
        let mut is_fresh = |event: &ObjectEvent| {
            let (stays, of_pod) = (says_why_a_node_stays(event), is_about_a_pods_disruption(event));
            // Why a node stays is full of numbers and names that change from plan to plan.
            let message = if stays { String::new() } else { event.message.clone() };
            let key = ObjectEvent { message, ..event.clone() };
            // One that is kept back stays as old as it is, so that what lasts is said again after a while.
            if self.told.contains_key(&key) || (stays && staying == STAYING) || (of_pod && on_pods == ON_PODS) {
                return false;
            }
            staying += usize::from(stays);
            on_pods += usize::from(of_pod);
            let quiet = if event.reason == "Unconsolidatable" { QUIET_ON_NODES } else { QUIET };
            self.told.insert(key, now.saturating_add(quiet).unwrap_or(Timestamp::MAX));
            true
        };
        events.into_iter().filter(|event| is_fresh(event)).collect()
    }
}

fn says_why_a_node_stays(event: &ObjectEvent) -> bool {
    !event.warning
        && matches!(event.object.kind.as_str(), "Node" | "NodeClaim")
        && matches!(event.reason.as_str(), "DisruptionBlocked" | "Unconsolidatable")
}

fn is_about_a_pods_disruption(event: &ObjectEvent) -> bool {
    event.object.kind == "Pod" && (event.reason == "DisruptionBlocked" || event.reason.contains("DoNotDisrupt"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::object::ObjectRef;

    #[test]
    fn what_lasts_is_said_again_after_a_while() {
        let event = ObjectEvent {
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "Node".into(),
                namespace: String::new(),
                name: "a".into(),
                uid: String::new(),
            },
            warning: false,
            reason: "DisruptionBlocked".into(),
            message: "A PodDisruptionBudget holds its pods".into(),
        };
        let mut recent = Recent::default();
        let said = (0..12).filter(|minute| {
            let now = Timestamp::UNIX_EPOCH + QUIET * *minute / 5;
            !recent.fresh(vec![event.clone(), event.clone()], now).is_empty()
        });
        assert_eq!(said.collect::<Vec<_>>(), [0, 5, 10]);
    }

    #[test]
    fn what_is_wrong_with_many_pods_is_told_plan_by_plan() {
        let of_pod = |number: usize| ObjectEvent {
            object: ObjectRef {
                api_version: "v1".into(),
                kind: "Pod".into(),
                namespace: "default".into(),
                name: number.to_string(),
                uid: String::new(),
            },
            warning: true,
            reason: "InvalidDoNotDisruptAnnotation".into(),
            message: "it is ignored".into(),
        };
        let all: Vec<ObjectEvent> = (0..250).map(of_pod).collect();
        let mut recent = Recent::default();
        let told = (0..4).map(|minute| recent.fresh(all.clone(), Timestamp::UNIX_EPOCH + QUIET * minute / 5).len());
        assert_eq!(told.collect::<Vec<_>>(), [100, 100, 50, 0]);
    }
}
