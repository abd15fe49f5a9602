//! Cheaper instance types that a launch may not use, in groups by what rules them out.

use super::answer::List;
use super::text_parts::dollars;
use crate::plural::counted;
use nodeless_model::Quantity;
use nodeless_model::resources::compared;
use nodeless_scheduling::{RuledOut, RuledOutCause};

/// The maximum number of groups.
const MAX_GROUPS: usize = 8;

/// Instance types with the same text for their cause, those of the most types first.
pub(crate) fn grouped(
    ruled_out: &[RuledOut],
    text: impl Fn(&RuledOutCause) -> String,
) -> Vec<(String, Vec<&RuledOut>)> {
    let mut groups: Vec<(String, Vec<&RuledOut>)> = Vec::new();
    for one in ruled_out {
        let cause = text(&one.cause);
        match groups.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, types)) => types.push(one),
            None => groups.push((cause, vec![one])),
        }
    }
    // The sort is stable: among equal counts, the cause that rules out the cheapest type comes first.
    groups.sort_by_key(|(_, types)| std::cmp::Reverse(types.len()));
    groups
}

/// A list for each cause, after a heading.
pub(crate) fn lists(ruled_out: &[RuledOut]) -> Vec<List> {
    if ruled_out.is_empty() {
        return vec![heading("no instance type is cheaper".to_owned())];
    }
    let mut groups = grouped(ruled_out, key);
    let rest: Vec<_> =
        groups.split_off(groups.len().min(MAX_GROUPS)).into_iter().flat_map(|(_, types)| types).collect();
    let is = if ruled_out.len() == 1 { "type is" } else { "types are" };
    let mut lists = vec![heading(format!("{} instance {is} cheaper, but ruled out:", ruled_out.len()))];
    lists.extend(groups.into_iter().map(|(_, types)| list(&text(&types), &types)));
    lists.extend((!rest.is_empty()).then(|| list("other reasons", &rest)));
    lists
}

fn heading(heading: String) -> List {
    List { heading, ..List::default() }
}

fn list(why: &str, types: &[&RuledOut]) -> List {
    let count = counted(types.len(), "type");
    let entry = |one: &&RuledOut| format!("{:20} {}  {}", one.name, dollars(one.price), one.cause);
    List { heading: format!("  {count}: {why}"), entries: types.iter().map(entry).collect(), shown: 0 }
}

/// What the causes of a group have in common.
fn key(cause: &RuledOutCause) -> String {
    match cause {
        RuledOutCause::TooSmall { resource, .. } => format!("too small {resource}"),
        RuledOutCause::DaemonSet { lacking, .. } => format!("DaemonSet {} {}", lacking.name, lacking.resource),
        RuledOutCause::Unavailable { .. } => "unavailable".to_owned(),
        // Each of the pods may require the same.
        RuledOutCause::Pod { required, .. } => format!("required {required}"),
        other => other.to_string(),
    }
}

/// The cause of a group.
fn text(types: &[&RuledOut]) -> String {
    let Some(first) = types.first() else { return String::new() };
    match &first.cause {
        RuledOutCause::TooSmall { resource, needed, .. } => {
            let left = |one: &&RuledOut| match &one.cause {
                RuledOutCause::TooSmall { left, .. } => Some(*left),
                _ => None,
            };
            let largest = types.iter().filter_map(left).max().unwrap_or(Quantity::ZERO);
            let [largest, needed] = compared(resource, [largest, *needed]);
            format!("the pods need {resource} {needed}, the largest leaves {largest}")
        }
        RuledOutCause::DaemonSet { lacking, .. } => {
            let left = |one: &&RuledOut| match &one.cause {
                RuledOutCause::DaemonSet { left, .. } => Some(*left),
                _ => None,
            };
            let largest = types.iter().filter_map(left).max().unwrap_or(Quantity::ZERO);
            let [largest, needed] = compared(&lacking.resource, [largest, lacking.requested]);
            format!("DaemonSet {} needs {} {needed}, the largest leaves {largest}", lacking.name, lacking.resource)
        }
        RuledOutCause::Unavailable { .. } => "unavailable now in the zones and capacity types that remain".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(number: usize, cause: RuledOutCause) -> RuledOut {
        RuledOut { name: format!("m5.{number}"), price: 0.1, cause }
    }

    fn too_small(left: i64) -> RuledOutCause {
        let quantity = Quantity::from_units;
        RuledOutCause::TooSmall {
            resource: "cpu".to_owned(),
            needed: quantity(900),
            left: quantity(left),
            daemon_set: None,
        }
    }

    #[test]
    fn a_group_states_what_is_needed_and_what_the_largest_type_leaves() {
        let required = |pod: &str| RuledOutCause::Pod { pod: pod.to_owned(), required: "arch In [amd64]".to_owned() };
        let mut all: Vec<RuledOut> = (0..412).map(|number| type_of(number, too_small(37 + number as i64))).collect();
        all.extend(["a/b", "a/c"].map(|pod| type_of(0, required(pod))));
        all.push(type_of(1, RuledOutCause::Unused));
        let headings: Vec<String> = lists(&all).into_iter().map(|list| list.heading).collect();
        assert_eq!(headings[0], "415 instance types are cheaper, but ruled out:");
        assert_eq!(headings[1], "  412 types: the pods need cpu 900, the largest leaves 448");
        assert_eq!(headings[2], "  2 types: pod a/b requires arch In [amd64]");
        assert!(headings[3].starts_with("  1 type: it fits, but "), "{}", headings[3]);
    }

    #[test]
    fn many_causes_are_bounded_and_no_type_is_lost() {
        let limit = |number| RuledOutCause::Limit { limit: format!("example.com/{number}") };
        let all: Vec<RuledOut> = (0..50).map(|number| type_of(number, limit(number))).collect();
        let lists = lists(&all);
        assert_eq!(lists.len(), 1 + MAX_GROUPS + 1);
        assert_eq!(lists.last().unwrap().heading, "  42 types: other reasons");
        assert_eq!(lists.iter().map(|list| list.entries.len()).sum::<usize>(), 50);
    }
}
