//! The records of claims against each other and against their NodeClaim objects.

use crate::{Driver, Outcome};
use jiff::Timestamp;
use nodeless_fake_kubernetes::ListOptions;
use nodeless_model::{NodeClaim, Phase};
use nodeless_world::resources::NODE_CLAIMS;
use std::collections::{BTreeMap, BTreeSet};

/// After this number of sweeps every claim has its object: two, and others whose calls failed or took as long as the sweep.
const SWEEPS: u32 = 10;
/// A message that is reported this often within the time of quiescence is reported for ever.
const TIMES: usize = 20;

/// Claims that have the same place in a launch group.
pub(super) fn same_places(claims: &[NodeClaim]) -> Vec<String> {
    let mut places: BTreeMap<(&str, u32), &str> = BTreeMap::new();
    let mut same = Vec::new();
    for claim in claims {
        let Some(group) = &claim.spec.launch_group else { continue };
        if let Some(other) = places.insert((&group.id, group.index), &claim.name) {
            same.push(format!(
                "claims {other} and {} both are number {} of group {}",
                claim.name, group.index, group.id
            ));
        }
    }
    same
}

/// The number of sweeps since a claim has no NodeClaim object, by the name of the claim.
#[derive(Debug, Default)]
pub(crate) struct ClaimObjects(BTreeMap<String, u32>);

impl ClaimObjects {
    /// The claims that have no NodeClaim object after these outcomes.
    pub(crate) fn missing(&mut self, outcomes: &[(Timestamp, Outcome)], driver: &Driver) -> Vec<String> {
        let sweeps = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Swept(Ok(_)))).count();
        if sweeps == 0 {
            return Vec::new();
        }
        let sweeps = u32::try_from(sweeps).unwrap_or(u32::MAX);
        let objects = driver.world().api().list(&NODE_CLAIMS, &ListOptions::default());
        let objects = objects.map(|list| list.items).unwrap_or_default();
        let names: BTreeSet<&str> = objects.iter().filter_map(|it| it["metadata"]["name"].as_str()).collect();
        let claims = driver.claims().snapshot();
        let without = claims.iter().filter(|claim| claim.phase != Phase::Gone && !claim.is_standalone());
        let without = without.map(|claim| &claim.name).filter(|name| !names.contains(name.as_str()));
        self.0 = without.map(|name| (name.clone(), self.0.get(name).copied().unwrap_or(0) + sweeps)).collect();
        let lasting = self.0.iter().filter(|(_, sweeps)| **sweeps > SWEEPS);
        lasting.map(|(name, sweeps)| format!("claim {name} has none after {sweeps} sweeps")).collect()
    }
}

/// The problems that operations report while nothing fails, with their times.
#[derive(Debug, Default)]
pub(crate) struct Messages(BTreeMap<String, Vec<Timestamp>>);

impl Messages {
    /// Adds what these outcomes report.
    pub(crate) fn add(&mut self, outcomes: &[(Timestamp, Outcome)]) {
        for (at, outcome) in outcomes {
            let problems = match outcome {
                Outcome::Planned(Ok(report)) => report.problems.clone(),
                Outcome::Swept(Ok(report)) => report.problems.clone(),
                other => other.failure().into_iter().collect(),
            };
            problems.into_iter().for_each(|problem| self.0.entry(problem).or_default().push(*at));
        }
    }

    /// The messages that have been reported again and again since a time.
    pub(crate) fn repeated(&self, since: Timestamp) -> Vec<String> {
        let times = self.0.iter().map(|(message, all)| (message, all.iter().filter(|at| **at >= since).count()));
        times.filter(|(_, count)| *count >= TIMES).map(|(message, count)| format!("{count} times: {message}")).collect()
    }
}
