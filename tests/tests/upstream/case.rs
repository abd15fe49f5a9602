//! A case of the table, as it is written.

use crate::expect::Expect;
use crate::nodes::GivenNode;
use crate::pods::Pods;
use crate::pools::Pool;
use crate::reservations::Reservation;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Case {
    /// What has to hold, in one sentence.
    pub(crate) case: String,
    /// The file of the suite: in Karpenter, or with `aws:` before it in its provider for AWS.
    pub(crate) suite: String,
    /// If nodeless differs on purpose. `expect` is then its own outcome.
    pub(crate) differs: Option<Differs>,
    /// If nodeless does not have the expected outcome: why.
    pub(crate) fails: Option<String>,
    /// The instance types or families that exist; all if there are none.
    #[serde(default)]
    pub(crate) catalog: Vec<String>,
    /// Offerings that cannot be launched: `m5.large us-east-1a spot`, with `*` for any.
    #[serde(default)]
    pub(crate) unavailable: Vec<String>,
    /// The time of the plan.
    pub(crate) at: Option<Timestamp>,
    /// Feature gates, as Karpenter writes them.
    #[serde(default)]
    pub(crate) gates: String,
    /// Whether preferences are ignored.
    #[serde(default)]
    pub(crate) ignore_preferences: bool,
    /// Whether a new node may have fewer values than `minValues`.
    #[serde(default)]
    pub(crate) best_effort_min_values: bool,
    /// Zones with a zonal shift.
    #[serde(default)]
    pub(crate) shifted: Vec<String>,
    /// The maximum number of decisions about disruption.
    pub(crate) decisions: Option<usize>,
    /// The NodePools by name; one named `default` if there are none.
    pub(crate) pools: Option<BTreeMap<String, Option<Pool>>>,
    /// The specs of EC2NodeClasses by name, over that of the default one.
    #[serde(default)]
    pub(crate) classes: BTreeMap<String, Value>,
    /// The capacity reservations of the account.
    #[serde(default)]
    pub(crate) reservations: Vec<Reservation>,
    #[serde(default)]
    pub(crate) pods: Vec<Pods>,
    #[serde(default)]
    pub(crate) nodes: Vec<GivenNode>,
    /// Other objects.
    #[serde(default)]
    pub(crate) objects: Vec<Value>,
    pub(crate) expect: Expect,
}

/// A difference on purpose.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Differs {
    /// The page that states it, such as `docs/reference/disruption.md#rules`.
    pub(crate) page: String,
    /// The outcome in Karpenter.
    pub(crate) upstream: String,
}
