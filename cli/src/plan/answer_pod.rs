//! The answer about a pod.

use super::explain::{Explanation, PodOutcome};
use super::wording::answer::{Answer, List};
use super::wording::ruled_out;
use super::wording::text_parts::{SHOWN, dollars};
use crate::plural::counted;

/// The maximum number of causes and of remedies.
const MAX_CAUSES: usize = 8;

pub(super) fn answer(explanation: &Explanation) -> Answer {
    let pod = &explanation.pod;
    match &explanation.outcome {
        PodOutcome::Launch { node_pool, offering, instance_types, covered_per_hour, ruled_out, with, .. } => {
            let with = match with.len() {
                0 => String::new(),
                others => format!(", with {}", counted(others, "other pod")),
            };
            let (price, types) = (dollars(offering.price_per_hour), counted(instance_types.len(), "instance type"));
            let chosen = format!("{} {} in {}", offering.instance_type, offering.capacity_type, offering.zone);
            let others = instance_types.get(1..).unwrap_or_default();
            let compatible = others.last().map(|dearest| List {
                heading: format!("or another of them, up to {}", dollars(dearest.price_per_hour)),
                entries: others
                    .iter()
                    .map(|kind| format!("{:20} {}", kind.name, dollars(kind.price_per_hour)))
                    .collect(),
                shown: SHOWN,
            });
            Answer {
                answer: format!("Pod {pod} is scheduled to a new node of NodePool {node_pool}{with}"),
                lines: vec![match covered_per_hour.filter(|covered| *covered > 0.0) {
                    Some(covered) => format!("{chosen}, {price}: commitments cover {} of it", dollars(covered)),
                    None => format!("{chosen}, {price}: the cheapest offering of the {types} that may be launched"),
                }],
                lists: compatible.into_iter().chain(ruled_out::lists(ruled_out)).collect(),
            }
        }
        PodOutcome::Placement { node } => line(format!("Pod {pod} fits on node {node}")),
        PodOutcome::Unschedulable { causes, remedies, obstacle, .. } => {
            let start = format!("Pod {pod} is unschedulable");
            let mut lists: Vec<List> = causes.iter().map(|(why, node_pools)| cause(why, node_pools)).collect();
            // One cause is part of the answer.
            let answer = match &mut lists[..] {
                [one] => format!("{start}: {}", std::mem::take(&mut one.heading)),
                _ => start,
            };
            lists.retain(|list| !list.heading.is_empty());
            let more = lists.len().saturating_sub(MAX_CAUSES);
            lists.truncate(MAX_CAUSES);
            let rest = format!("and {}", counted(more, "other reason"));
            lists.extend((more > 0).then(|| List { heading: rest, ..List::default() }));
            let remedies = remedies.iter().take(MAX_CAUSES).enumerate();
            let remedies =
                remedies.map(|(index, remedy)| format!("{} {remedy}", if index == 0 { "to schedule:" } else { "or:" }));
            Answer { answer, lines: remedies.chain(obstacle.clone()).collect(), lists }
        }
        PodOutcome::NotPending { why } => line(format!("Pod {pod} is not pending: {why}")),
    }
}

/// A cause with its NodePools.
fn cause(why: &str, node_pools: &[String]) -> List {
    match node_pools {
        [] => List { heading: why.to_owned(), ..List::default() },
        [one] => List { heading: format!("NodePool {one}: {why}"), ..List::default() },
        several => List {
            heading: format!("{} NodePools: {why}", several.len()),
            entries: several.to_vec(),
            shown: if several.len() > SHOWN { 0 } else { SHOWN },
        },
    }
}

fn line(answer: String) -> Answer {
    Answer { answer, ..Answer::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unschedulable(causes: Vec<(String, Vec<String>)>) -> Vec<String> {
        let outcome = PodOutcome::Unschedulable {
            reasons: Vec::new(),
            causes,
            remedies: vec!["tolerate it".to_owned(), "request less".to_owned()],
            obstacle: None,
        };
        answer(&Explanation { pod: "a/b".to_owned(), outcome }).text()
    }

    #[test]
    fn remedies_come_before_the_causes_which_are_grouped_and_bounded() {
        let pools = |count: usize| (0..count).map(|number| format!("pool-{number}")).collect::<Vec<_>>();
        assert_eq!(
            unschedulable(vec![("too large".to_owned(), pools(1))]),
            [
                "Pod a/b is unschedulable: NodePool pool-0: too large",
                "  to schedule: tolerate it",
                "  or: request less"
            ]
        );
        let several = unschedulable(vec![("too large".to_owned(), pools(1)), ("tainted".to_owned(), pools(30))]);
        assert_eq!(several[..2], ["Pod a/b is unschedulable", "  to schedule: tolerate it"]);
        assert_eq!(several[3..5], ["  NodePool pool-0: too large", "  30 NodePools: tainted"]);
        let many = (0..100).map(|number| (format!("cause {number}"), pools(1))).collect();
        assert!(unschedulable(many).len() < 20);
    }
}
