//! Launch budgets: how many of the planned nodes may be launched now.

use crate::launches::PlannedNode;
use crate::pools::EvaluatedPool;
use nodeless_launch::launch_budget::{Budgets, Share, Usable};
use nodeless_model::{InstanceType, NodeClaim, Phase, Requirements};
use nodeless_state::capacity::LaunchBudget;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// When launches that wait for a budget are evaluated again. EC2 answers within seconds.
pub(crate) const AGAIN: Duration = Duration::from_secs(10);

/// The offerings that may be launched for each NodePool, by name.
struct Types<'a>(BTreeMap<&'a str, BTreeMap<&'a str, &'a InstanceType>>);

impl<'a> Types<'a> {
    fn new(evaluated: &'a [EvaluatedPool]) -> Self {
        let of = |one: &'a EvaluatedPool| {
            let types = one.types.instance_types.iter().map(|kind| (kind.name.as_str(), kind)).collect();
            (one.pool.name.as_str(), types)
        };
        Self(evaluated.iter().map(of).collect())
    }

    /// The offerings that a launch may use.
    fn usable<'n>(
        &self,
        pool: &str,
        names: impl Iterator<Item = &'n str>,
        requirements: &Requirements,
    ) -> Vec<Usable<'a>> {
        let Some(types) = self.0.get(pool) else { return Vec::new() };
        let mut usable = Vec::new();
        for kind in names.filter_map(|name| types.get(name).copied()) {
            usable.extend(kind.available_offerings(requirements).map(|offering| Usable {
                instance_type: &kind.name,
                zone: &offering.zone,
                capacity_type: offering.capacity_type,
                price: offering.price,
            }));
        }
        usable
    }
}

/// The budgets, less the launches that EC2 has not answered yet.
pub(crate) fn left(written: &[LaunchBudget], records: &[NodeClaim], evaluated: &[EvaluatedPool]) -> Budgets {
    let types = Types::new(evaluated);
    let mut budgets = Budgets::new(written.to_vec());
    let mut on_their_way: BTreeMap<&str, (&NodeClaim, usize)> = BTreeMap::new();
    for claim in records.iter().filter(|claim| claim.phase < Phase::Launched && claim.status.instance.is_none()) {
        let group = claim.spec.launch_group.as_ref().map_or(claim.uid.as_str(), |group| group.id.as_str());
        on_their_way.entry(group).or_insert((claim, 0)).1 += 1;
    }
    for (claim, count) in on_their_way.into_values() {
        let names = claim.spec.instance_types.iter().map(String::as_str);
        let Some(pool) = &claim.node_pool else { continue };
        let usable = types.usable(pool, names, &claim.spec.requirements);
        budgets.charge(count, &usable, &claim.spec.avoided_offerings);
    }
    budgets
}

/// Splits the planned nodes into those that may be launched now, each with the offerings that it must not use, and those that
/// wait, each with the reason.
pub(crate) fn within<'w>(
    planned: Vec<PlannedNode<'w>>,
    evaluated: &[EvaluatedPool],
    mut budgets: Budgets,
    together: u32,
) -> (Vec<PlannedNode<'w>>, Vec<(PlannedNode<'w>, String)>) {
    let types = Types::new(evaluated);
    let together = usize::try_from(together).unwrap_or(usize::MAX);
    // In the order of the plan, which puts the most important nodes first.
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut alike: Vec<Vec<PlannedNode<'w>>> = Vec::new();
    for one in planned {
        let place = *places.entry(one.key()).or_insert(alike.len());
        match alike.get_mut(place) {
            Some(members) => members.push(one),
            None => alike.push(vec![one]),
        }
    }
    let (mut now, mut later) = (Vec::new(), Vec::new());
    for members in alike {
        let Some(launch) = members.first().map(|one| one.launch) else { continue };
        let names = launch.instance_types.iter().map(|kind| kind.name.as_str());
        let usable = types.usable(&launch.node_pool, names, &launch.requirements);
        if usable.is_empty() {
            // The launch itself reports this error.
            now.extend(members);
            continue;
        }
        let shares = budgets.shares(members.len(), &usable, together);
        let mut members = members.into_iter();
        for Share { count, avoided } in shares {
            now.extend(members.by_ref().take(count).map(|one| PlannedNode { avoided: avoided.clone(), ..one }));
        }
        let offering = &launch.offering;
        let why = format!(
            "its node exceeds the launch budget of {} {} in {} and offerings of similar price; it waits until those \
             in progress have succeeded",
            offering.instance_type, offering.capacity_type, offering.zone
        );
        later.extend(members.map(|one| (one, why.clone())));
    }
    (now, later)
}

impl PlannedNode<'_> {
    /// A key that is equal for nodes with the same parameters of CreateFleet, which can share one call.
    pub(crate) fn key(&self) -> String {
        let launch = self.launch;
        let types: Vec<&str> = launch.instance_types.iter().map(|kind| kind.name.as_str()).collect();
        json!([
            launch.node_pool,
            launch.node_class,
            launch.requirements.to_terms(),
            types,
            self.avoided,
            self.whole_for
        ])
        .to_string()
    }
}
