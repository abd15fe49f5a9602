//! The dependence of other pods on where a pod is scheduled.

use crate::constraints::groups::{Groups, Kind};
use crate::problem::{Options, PreferencePolicy, Problem};
use nodeless_model::hashed::HashMap;
use nodeless_model::labels;

/// The dependence of other pods of a plan on where a pod is scheduled, and vice versa.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependence {
    /// Not at all, or only that they do not share a node.
    None,
    /// In which zone it is.
    Zone,
    /// On which node it is, or which value another label has there.
    Other,
}

/// The dependences of all pods of a problem, in their order.
///
/// The kube-scheduler places pending pods one after another, in any order. It can still follow a plan while pods with
/// [`Dependence::Zone`] stay in their zone and those with [`Dependence::Other`] on their node.
#[must_use]
pub fn dependences(problem: &Problem<'_>, options: &Options) -> Vec<Dependence> {
    let groups = Groups::new(problem, options.preferences == PreferencePolicy::Respect);
    let of_group: Vec<Dependence> =
        groups.list.iter().map(|group| dependence(group.kind, &group.key, group.filter.is_trivial())).collect();
    let mut known = HashMap::default();
    let strongest =
        |ids: &mut dyn Iterator<Item = &usize>| ids.map(|id| of_group[*id]).max().unwrap_or(Dependence::None);
    let of_pod = |relations: &crate::constraints::groups::Relations| {
        *known.entry(*relations).or_insert_with(|| {
            let owned = strongest(&mut groups.owned[relations.owned].iter());
            owned.max(strongest(&mut groups.selected[relations.selected].iter()))
        })
    };
    groups.relations.iter().map(of_pod).collect()
}

fn dependence(kind: Kind, key: &str, every_node_counts: bool) -> Dependence {
    match (kind, key) {
        (Kind::Anti, labels::HOSTNAME) => Dependence::None,
        (_, labels::ZONE) if every_node_counts => Dependence::Zone,
        _ => Dependence::Other,
    }
}
