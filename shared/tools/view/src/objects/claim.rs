//! NodeClaims.

use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_model::claim::{condition, reason};
use nodeless_model::object::MirroredClaim;
use nodeless_model::{StringMap, labels};
use serde::{Deserialize, Serialize};

/// A NodeClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimFacts {
    /// The name.
    pub name: String,
    /// The NodePool.
    pub node_pool: Option<String>,
    pub(crate) labels: StringMap,
    /// The price that nodeless recorded, in dollars an hour.
    pub(crate) price: Option<f64>,
    pub(crate) node: Option<String>,
    pub(crate) provider_id: Option<String>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) conditions: Vec<ConditionFacts>,
}

/// A condition of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConditionFacts {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) last_transition_time: Option<Timestamp>,
}

/// The fields of a NodeClaim that its reduced form does not have.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rest {
    metadata: RestOfMetadata,
    status: RestOfStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RestOfMetadata {
    labels: StringMap,
    annotations: StringMap,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RestOfStatus {
    node_name: Option<String>,
    conditions: Vec<ConditionFacts>,
}

/// A NodeClaim whose node has not joined.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRow {
    /// The name.
    pub name: String,
    /// The NodePool.
    pub node_pool: Option<String>,
    /// The instance type, once it is launched.
    pub instance_type: Option<String>,
    /// The zone, once it is launched.
    pub zone: Option<String>,
    /// The capacity type, once it is launched.
    pub capacity_type: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The price in dollars an hour, once it is launched.
    pub price_per_hour: Option<f64>,
    /// What the NodeClaim waits for, such as `the launch`.
    pub waits_for: &'static str,
    /// The message of the condition that is not true yet.
    pub message: String,
    /// Whether an Event reports that it replaces nodes.
    pub replacement: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

fn recorded_price(annotations: &StringMap) -> Option<f64> {
    let price: f64 = annotations.get(labels::PRICE_PER_HOUR)?.parse().ok()?;
    (price.is_finite() && price >= 0.0).then_some(price)
}

impl ClaimFacts {
    pub(crate) fn new(claim: MirroredClaim, rest: Rest) -> Self {
        let lives = claim.expire_after.and_then(|age| age.try_into().ok());
        let expires = lives.and_then(|age: jiff::SignedDuration| claim.created?.checked_add(age).ok());
        Self {
            name: claim.name,
            node_pool: claim.node_pool,
            price: recorded_price(&rest.metadata.annotations),
            labels: rest.metadata.labels,
            node: rest.status.node_name.filter(|name| !name.is_empty()),
            provider_id: claim.provider_id,
            created: claim.created,
            deletion_timestamp: claim.deletion_timestamp,
            expires,
            conditions: rest.status.conditions,
        }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&ConditionFacts> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    pub(crate) fn has(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }

    /// Whether its instance is stopped as a warm node.
    pub(crate) fn is_stopped(&self) -> bool {
        let registered = self.condition(condition::REGISTERED);
        self.has(condition::LAUNCHED) && registered.is_some_and(|registered| registered.reason == reason::STOPPED)
    }

    /// The first of the conditions of a joining node that is not true, in words, and its message.
    pub(crate) fn missing(&self) -> Option<(&'static str, String)> {
        let steps = [
            (condition::LAUNCHED, "the launch"),
            (condition::REGISTERED, "the node to register"),
            (condition::INITIALIZED, "the node to be initialized"),
        ];
        let (kind, words) = steps.into_iter().find(|(kind, _)| !self.has(kind))?;
        let words = if self.is_stopped() { "pods that it is started for" } else { words };
        Some((words, self.condition(kind).map(|one| one.message.clone()).unwrap_or_default()))
    }

    /// The row of a NodeClaim whose node has not joined.
    pub(crate) fn row(&self, prices: &Catalog, replacement: bool) -> ClaimRow {
        let label = |key: &str| self.labels.get(key).cloned();
        let (waits_for, message) = self.missing().unwrap_or(("the node to join", String::new()));
        ClaimRow {
            name: self.name.clone(),
            node_pool: self.node_pool.clone(),
            price_per_hour: self.price.or_else(|| prices.node_price(&self.labels)).filter(|_| !self.is_stopped()),
            instance_type: label(labels::INSTANCE_TYPE),
            zone: label(labels::ZONE),
            capacity_type: label(labels::CAPACITY_TYPE),
            created: self.created,
            waits_for,
            message,
            replacement,
            deleting: self.deletion_timestamp.is_some(),
        }
    }
}
