//! How plans are made.

use nodeless_bill::CostLabels;
use nodeless_model::ExpectedPods;
use nodeless_operations::gates::FeatureGates;
use nodeless_state::claims::MAX_TOGETHER;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How plans are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanSettings {
    /// The plan starts when no further pod has become pending for this time.
    pub batch_idle: Duration,
    /// The maximum time that a plan waits for further pods; twice as long, but at most 20 seconds, while a controller creates many.
    pub batch_max: Duration,
    /// For which pods nodes are launched before their workload has created them.
    #[serde(default)]
    pub expected_pods: ExpectedPods,
    /// The maximum number of claims in one launch group, at most [`MAX_TOGETHER`], because they are written together.
    pub group_size: u32,
    /// How long explanations of decisions are kept.
    pub keep_decisions: Duration,
    /// How pods are scheduled.
    pub scheduling: nodeless_scheduling::Options,
    /// The enabled features.
    pub gates: FeatureGates,
    /// Whether zonal shifts are honoured.
    pub zonal_shift: bool,
    /// From this number of nodes on, the start and the end of every plan are recorded, so that the next plan detects one that did
    /// not finish. A plan for pending pods, or for a CapacityBuffer, is always recorded.
    pub remembered_from: usize,
    /// How long the table keeps the snapshot of each plan; `None` to keep none.
    pub keep_snapshots: Option<Duration>,
    /// The labels of pods by whose values the costs of nodes are recorded.
    pub cost_labels: CostLabels,
    /// The memory of the function in MB, which determines its part of a vCPU; `None` for a whole one.
    pub memory_megabytes: Option<u32>,
    /// The mechanism that plans are made without: `None` in every function.
    #[serde(skip)]
    pub without: Option<Mechanism>,
}

impl Default for PlanSettings {
    /// Karpenter's batch window, and a week of decisions.
    fn default() -> Self {
        Self {
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            expected_pods: ExpectedPods::Off,
            group_size: u32::try_from(MAX_TOGETHER).unwrap_or(u32::MAX),
            keep_decisions: nodeless_state::decisions::KEPT,
            scheduling: nodeless_scheduling::Options::default(),
            gates: FeatureGates::default(),
            zonal_shift: false,
            remembered_from: 200,
            keep_snapshots: None,
            cost_labels: CostLabels::default(),
            memory_megabytes: None,
            without: None,
        }
    }
}

/// A mechanism that the simulator can leave out of plans, to measure what it is for (docs/design/mechanisms.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Consolidation predicts where the kube-scheduler binds the pods that it moves.
    Prediction,
    /// Equal pods are exchanged between the places of a plan, so that the kube-scheduler can bind them there.
    Exchange,
    /// Nodes are nominated for the pods that they were launched for, before they open.
    Nominations,
    /// Voluntary disruption of a NodePool stops that evicts many pods and saves nothing.
    ChurnBreaker,
    /// Pods that do not go to the nodes of their plans are planned without these.
    WaitingPods,
    /// Plans for pods that the last plan has seen wait, longer with each that finds nothing new.
    RepeatedPlans,
}
