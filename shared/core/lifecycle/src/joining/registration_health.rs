//! The condition `NodeRegistrationHealthy` of NodePools: whether the instances that a NodePool launches register, by the results
//! of the last launches.
//!
//! The rules and numbers are Karpenter's. Karpenter keeps the results in memory; here they are a record in a table, whose writes
//! have to be repeatable: each claim counts once.

use jiff::Timestamp;
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::{NodeClaim, Phase};
use serde::{Deserialize, Serialize};

/// The number of results that are kept.
const REMEMBERED: usize = 4;
/// The number of failures that make a NodePool unhealthy: half of [`REMEMBERED`].
const TOO_MANY: usize = 2;

/// The results of the last launches of a NodePool in its current generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationHealth {
    /// The generations of the results.
    of: Described,
    /// Claims that were created before this time use another template and do not count.
    since: Option<Timestamp>,
    /// The results, the oldest first.
    results: Vec<Remembered>,
}

/// The generations of a NodePool and its EC2NodeClass. When either changes, earlier results are dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Described {
    /// The uid of the NodePool: one that was created again under the same name is another.
    pub node_pool_uid: String,
    /// The generation of the NodePool.
    pub node_pool: i64,
    /// The generation of its EC2NodeClass.
    pub node_class: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remembered {
    /// The claim's uid; empty for a result that was derived from a condition.
    claim: String,
    came_to: Registration,
}

/// The result of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Registration {
    /// The node registered.
    Joined,
    /// The node did not register in time.
    Failed {
        /// The reason, as one word.
        reason: String,
        /// The reason, as one sentence.
        message: String,
    },
}

/// Whether the nodes of a NodePool register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthStatus {
    /// There are too few results.
    Unknown,
    /// The nodes register.
    Healthy,
    /// Too many of the last nodes did not register.
    Unhealthy {
        /// The reason of the last failure, as one word.
        reason: String,
        /// The reason, as one sentence.
        message: String,
    },
}

impl Registration {
    /// The result of a step of a claim for its NodePool: nothing, unless its node joined or timed out in it. Insufficient
    /// capacity or a deleted claim is no result, and a claim without a NodePool has none.
    #[must_use]
    pub fn new(before: &NodeClaim, after: &NodeClaim) -> Option<Self> {
        before.node_pool.as_ref()?;
        if matches!(before.phase, Phase::Launched | Phase::WarmLaunched)
            && matches!(after.phase, Phase::Registered | Phase::Preparing | Phase::Initialized)
        {
            return Some(Self::Joined);
        }
        if before.phase.is_leaving() {
            return None;
        }
        match after.status.termination.as_ref()?.reason {
            TerminationReason::RegistrationTimeout => Some(Self::Failed {
                reason: "RegistrationFailed".to_owned(),
                message: "Failed to register node".to_owned(),
            }),
            TerminationReason::LaunchTimeout => {
                let launched = before.condition(condition::LAUNCHED);
                let (reason, message) = launched.map_or(("LaunchFailed", ""), |one| (&one.reason, &one.message));
                Some(Self::Failed { reason: reason.to_owned(), message: message.to_owned() })
            }
            _ => None,
        }
    }
}

impl RegistrationHealth {
    /// No results yet.
    #[must_use]
    pub fn unknown(of: Described) -> Self {
        Self { of, since: None, results: Vec::new() }
    }

    /// The results that correspond to an existing condition of the same NodePool: the number that results in the same status.
    #[must_use]
    pub fn taken_over(of: Described, status: HealthStatus) -> Self {
        let results = match status {
            HealthStatus::Unknown => Vec::new(),
            HealthStatus::Healthy => vec![Registration::Joined],
            HealthStatus::Unhealthy { reason, message } => vec![Registration::Failed { reason, message }; TOO_MANY],
        };
        let remembered = |came_to| Remembered { claim: String::new(), came_to };
        Self { of, since: None, results: results.into_iter().map(remembered).collect() }
    }

    /// The results of the NodePool in its current generation: all of them, or none if it has changed since. Results of claims
    /// that were created before `now` do not count then.
    #[must_use]
    pub fn about(self, now_described: Described, now: Timestamp) -> Self {
        if self.of == now_described {
            return self;
        }
        Self { of: now_described, since: Some(now), results: Vec::new() }
    }

    /// Records the result of a claim. Repeated results count once, and the last one counts. Returns whether that changed anything
    /// relevant.
    #[must_use]
    pub fn push(&mut self, claim: &NodeClaim, came_to: Registration) -> bool {
        if self.since.is_some_and(|since| claim.created < since) {
            return false;
        }
        if let Some(stated) = self.results.iter_mut().find(|stated| stated.claim == claim.uid) {
            let news = stated.came_to != came_to;
            stated.came_to = came_to;
            return news;
        }
        let joined = |one: &Remembered| one.came_to == Registration::Joined;
        if came_to == Registration::Joined && self.results.len() == REMEMBERED && self.results.iter().all(joined) {
            // A further success changes nothing, so a hundred nodes that join at once cause no write.
            return false;
        }
        self.results.push(Remembered { claim: claim.uid.clone(), came_to });
        let over = self.results.len().saturating_sub(REMEMBERED);
        self.results.drain(..over);
        true
    }

    /// Whether the NodePool's nodes register.
    #[must_use]
    pub fn status(&self) -> HealthStatus {
        let mut failures = self.results.iter().rev().filter_map(|one| match &one.came_to {
            Registration::Failed { reason, message } => Some((reason, message)),
            Registration::Joined => None,
        });
        let last = failures.next();
        let count = failures.count() + usize::from(last.is_some());
        match last {
            Some((reason, message)) if count >= TOO_MANY => {
                HealthStatus::Unhealthy { reason: reason.clone(), message: message.clone() }
            }
            _ if count == self.results.len() => HealthStatus::Unknown,
            _ => HealthStatus::Healthy,
        }
    }
}
