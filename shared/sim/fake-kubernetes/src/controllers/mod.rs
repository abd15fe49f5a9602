//! The controllers of a control plane and of its nodes, small and deterministic, over the API server in memory.
//!
//! Each is level-triggered: a step compares what is with what should be, and does the difference. A step without changes
//! since the last one, and with nothing due, costs one comparison of numbers.

mod daemon_set;
mod deployment;
mod disruption;
mod feed;
mod job;
mod kubelet;
mod node_lifecycle;
pub mod object;
mod replica_set;
mod rollout;
mod scheduler;
mod stateful_set;
mod taint_eviction;
#[cfg(test)]
mod tests;
mod workload;

pub use daemon_set::DaemonSetController;
pub use deployment::DeploymentController;
pub use disruption::DisruptionController;
pub use job::JobController;
pub use kubelet::{Kubelets, Machine};
pub use node_lifecycle::NodeLifecycleController;
pub use replica_set::ReplicaSetController;
pub use scheduler::Scheduler;
pub use stateful_set::StatefulSetController;
pub use taint_eviction::TaintEvictionController;

use super::server::{ApiServer, Status};
use jiff::Timestamp;

/// One controller.
pub trait Controller {
    /// Does whatever is to be done now.
    ///
    /// # Errors
    /// When the API server refuses something that this controller may expect to be accepted. What others changed or
    /// deleted meanwhile is no error: the next step sees it.
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status>;

    /// When something is due without any change, if anything is.
    fn next_wakeup(&self) -> Option<Timestamp>;
}

/// How many rounds the controllers may take to converge. A rollout of many replicas takes a few; more means that two
/// controllers undo each other's work.
const ROUNDS: usize = 1_000;

/// All controllers of a cluster.
#[derive(Debug, Default)]
pub struct Controllers {
    /// Rolls out Deployments.
    pub deployments: DeploymentController,
    /// Keeps ReplicaSets at their size.
    pub replica_sets: ReplicaSetController,
    /// Keeps StatefulSets in order.
    pub stateful_sets: StatefulSetController,
    /// Puts a pod of each DaemonSet on each node that it is for.
    pub daemon_sets: DaemonSetController,
    /// Runs Jobs to completion.
    pub jobs: JobController,
    /// Binds pods to nodes.
    pub scheduler: Scheduler,
    /// The machines, which register as nodes and run pods.
    pub kubelets: Kubelets,
    /// Watches over nodes whose machine has gone, and over the pods of nodes that have gone.
    pub node_lifecycle: NodeLifecycleController,
    /// Deletes pods from nodes with NoExecute taints.
    pub taint_eviction: TaintEvictionController,
    /// Keeps the status of PodDisruptionBudgets.
    pub disruption: DisruptionController,
}

impl Controllers {
    fn all(&mut self) -> [&mut dyn Controller; 10] {
        [
            &mut self.kubelets,
            &mut self.node_lifecycle,
            &mut self.taint_eviction,
            &mut self.deployments,
            &mut self.replica_sets,
            &mut self.stateful_sets,
            &mut self.daemon_sets,
            &mut self.jobs,
            &mut self.scheduler,
            &mut self.disruption,
        ]
    }

    /// Steps all controllers until none of them changes anything any more.
    ///
    /// # Errors
    /// The first error of a controller, or that they do not converge.
    pub fn converge(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        for _ in 0..ROUNDS {
            let before = api.revision();
            for controller in self.all() {
                controller.step(api, now)?;
            }
            if api.revision() == before {
                return Ok(());
            }
        }
        let message = format!("the simulated controllers did not converge in {ROUNDS} rounds");
        Err(Status::new(500, "InternalError", message))
    }

    /// When something is due without any change, if anything is.
    pub fn next_wakeup(&mut self) -> Option<Timestamp> {
        self.all().into_iter().filter_map(|controller| controller.next_wakeup()).min()
    }
}
