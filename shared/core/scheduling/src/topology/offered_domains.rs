//! Domains in which NodePools can launch nodes that count for a spread, for any pods.
//!
//! The kube-scheduler counts the domains of all nodes that a spread includes, even if the pod itself could not run on them. As
//! soon as any NodePool launches a node in such a domain, it counts as an empty one; so it counts in advance, as in Karpenter.
//! With `nodeTaintsPolicy: Ignore`, the default, a NodePool whose taints the pod does not tolerate offers domains too.

use crate::constraints::first_repelling;
use crate::constraints::groups::{Group, NodeFilter};
use crate::pools::Pool;
use crate::topology::ABSENT;
use nodeless_model::{Requirement, Requirements, labels};

/// By domain of a spread's key, whether a counted node can be launched there.
pub(crate) fn offered(group: &Group, domains: &[String], pools: &mut [Pool<'_>]) -> Vec<bool> {
    let required = required(&group.filter);
    let of_domain = |(domain, value): (usize, &String)| {
        domain != ABSENT && pools.iter_mut().any(|pool| offers(pool, group, value, required.as_deref()))
    };
    domains.iter().enumerate().map(of_domain).collect()
}

/// The required labels of a counted node: any of these alternatives. `None` if all nodes count.
fn required(filter: &NodeFilter) -> Option<Vec<Requirements>> {
    let selector = Requirements::from_labels(&filter.node_selector);
    if filter.terms.is_empty() {
        return (!filter.node_selector.is_empty()).then(|| vec![selector]);
    }
    let terms = filter.terms.iter().filter_map(|term| Requirements::from_terms(term).ok());
    Some(terms.filter(|term| selector.intersects(term)).map(|term| selector.with(&term)).collect())
}

fn offers(pool: &mut Pool<'_>, group: &Group, value: &str, required: Option<&[Requirements]>) -> bool {
    let taints = &pool.pool.template.taints;
    let tolerations = group.filter.tolerations.as_ref();
    if tolerations.is_some_and(|known| first_repelling(taints, known, false).is_some()) {
        return false;
    }
    let place = Requirements::from([(group.key.as_str(), Requirement::one_of([value]))]);
    match required {
        // The values that a NodePool lists are complete; only user-defined labels may have others.
        None => {
            pool.values_of(&group.key).contains(value) || (!labels::is_well_known(&group.key) && pool.launches(&place))
        }
        Some(any) => any.iter().any(|one| one.intersects(&place) && pool.launches(&one.with(&place))),
    }
}
