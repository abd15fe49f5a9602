//! The comparison, and its JSON and YAML output. `docs/pull-requests.md` describes it; change both together.

use crate::plan::report::Unschedulable;
use crate::plan::whatif::cost::{NodeWithoutPrice, Shape};
use serde::Serialize;

/// What HEAD changes, compared with BASE.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiffReport {
    /// The difference in one line.
    pub(crate) headline: String,
    pub(crate) difference: Difference,
    pub(crate) before: Side,
    pub(crate) after: Side,
    /// The same with as many pods as autoscalers allow; null without autoscalers.
    pub(crate) maximum: Option<Maximum>,
    /// The groups of nodes, those with the largest differences first.
    pub(crate) groups: Vec<Row>,
    pub(crate) objects: Objects,
    /// Objects of kinds that are not planned, though pods would be created from them.
    pub(crate) not_planned: Vec<String>,
    /// The pods that are unschedulable with HEAD only.
    pub(crate) become_unschedulable: Vec<Unschedulable>,
    /// The pods that are unschedulable with BASE, and scheduled with HEAD.
    pub(crate) become_schedulable: Vec<String>,
    /// The pods that are unschedulable with BASE, and that HEAD does not have.
    pub(crate) removed_unschedulable: Vec<String>,
    /// The increase that is allowed, in whole dollars a month; null without `--max-increase`.
    pub(crate) max_increase: Option<u32>,
    pub(crate) exceeds_limit: bool,
    /// The region of the prices.
    pub(crate) region: String,
    /// What has to be known to read the figures.
    pub(crate) assumptions: Vec<String>,
}

/// HEAD without BASE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Difference {
    pub(crate) nodes: i64,
    pub(crate) dollars_per_month: i64,
}

/// Both plans with as many pods as autoscalers allow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Maximum {
    pub(crate) difference: Difference,
    pub(crate) before: Side,
    pub(crate) after: Side,
}

/// One of the two plans.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Side {
    pub(crate) nodes: usize,
    pub(crate) price_per_hour: f64,
    pub(crate) dollars_per_month: i64,
    /// The nodes whose price is unknown, which are in no sum.
    pub(crate) without_price: Vec<NodeWithoutPrice>,
    /// The number of unschedulable pods.
    pub(crate) unschedulable: usize,
}

/// The nodes of a NodePool, instance type and capacity type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) before: Amount,
    pub(crate) after: Amount,
}

/// Nodes and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Amount {
    pub(crate) nodes: usize,
    pub(crate) dollars_per_month: i64,
}

/// The objects that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Objects {
    pub(crate) added: Vec<Listed>,
    pub(crate) removed: Vec<Listed>,
    pub(crate) changed: Vec<Changed>,
}

/// An object that only one of the sets has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Listed {
    pub(crate) kind: &'static str,
    /// Null for cluster-scoped objects.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// The number of pods of a workload, null for another kind.
    pub(crate) pods: Option<usize>,
}

/// An object that both sets have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changed {
    /// The object, with the number of its pods in HEAD.
    #[serde(flatten)]
    pub(crate) object: Listed,
    /// The number of pods in BASE.
    pub(crate) pods_before: Option<usize>,
    /// The fields that differ.
    pub(crate) fields: Vec<String>,
}

impl Row {
    /// The additional dollars a month.
    pub(super) const fn difference(&self) -> i64 {
        self.after.dollars_per_month - self.before.dollars_per_month
    }
}

impl DiffReport {
    /// The groups that differ, and the sum of the others with their number.
    pub(super) fn split_groups(&self) -> (Vec<&Row>, Amount, usize) {
        let (same, differ): (Vec<&Row>, Vec<&Row>) = self.groups.iter().partition(|row| row.before == row.after);
        let sum = same.iter().fold(Amount::default(), |sum, row| Amount {
            nodes: sum.nodes + row.after.nodes,
            dollars_per_month: sum.dollars_per_month + row.after.dollars_per_month,
        });
        (differ, sum, same.len())
    }
}
