//! Findings of checks.

use serde::Serialize;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// nodeless does not work, or harm is done, until it is fixed.
    Error,
    /// Something does not work as its owner expects, or will not later.
    Warning,
    /// The check could not be made.
    NotChecked,
    /// Everything works, and a setting costs time.
    Note,
}

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Check {
    /// Authentication mode and access entries.
    Access,
    /// CustomResourceDefinitions, and who manages them.
    Definitions,
    /// A Karpenter that runs.
    Karpenter,
    /// NodePools of other controllers.
    OtherControllers,
    /// A deployment of nodeless that runs and does not serve the cluster.
    Table,
    /// Objects of Karpenter's earlier APIs, and objects that cannot be read.
    Objects,
    /// Annotations of nodeless that are invalid, or that nodeless does not read.
    Options,
    /// EC2NodeClasses that are not ready.
    NodeClasses,
    /// Tags by which subnets and security groups are found.
    Discovery,
    /// NodePools that nothing can serve.
    NodePools,
    /// Nodes that are not ready.
    Nodes,
    /// Quotas of EC2 that limits of NodePools would hit.
    Quotas,
    /// PodDisruptionBudgets that never allow an eviction.
    DisruptionBudgets,
    /// Pods that cannot be scheduled.
    Pods,
    /// DaemonSets that take most of nodes, or have no space on new ones.
    DaemonSets,
    /// Deployments that ask for successors before drains, without the right for it.
    Surges,
    /// Settings that cost seconds until pods of new nodes run.
    BootTime,
}

/// A finding of a check. Findings are shown in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The check.
    pub check: Check,
    /// Kind and name of the object; empty if the finding is not about a single object.
    pub object: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

impl Finding {
    pub(crate) fn new(severity: Severity, check: Check, object: impl Into<String>) -> Self {
        Self { severity, check, object: object.into(), problem: String::new(), advice: String::new() }
    }

    pub(crate) fn problem(mut self, problem: impl Into<String>) -> Self {
        self.problem = problem.into();
        self
    }

    pub(crate) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// A check that was not made.
    pub(crate) fn not_checked(check: Check, why: &str, advice: impl Into<String>) -> Self {
        Self::new(Severity::NotChecked, check, "").problem(format!("not checked: {why}")).advice(advice)
    }
}
