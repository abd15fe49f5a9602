//! The controllers of a control plane and of its nodes, small and deterministic, over the API server in memory.
//!
//! Each is level-triggered: a step compares the actual with the desired state, and applies the difference. A step without changes
//! since the last one, and with nothing due, costs one comparison of numbers.

mod attach_detach;
mod device_drivers;
mod disruption;
mod feed;
mod horizontal;
mod kubelet;
mod node_lifecycle;
pub mod object;
mod quota;
mod resource_claims;
mod scheduler;
mod taint_eviction;
#[cfg(test)]
mod tests;
mod workloads;

pub use attach_detach::AttachDetachController;
pub use device_drivers::DeviceDrivers;
pub use disruption::DisruptionController;
pub use horizontal::HorizontalController;
pub use kubelet::{Kubelets, Machine};
pub use node_lifecycle::NodeLifecycleController;
pub use quota::QuotaController;
pub use resource_claims::ResourceClaimController;
pub use scheduler::{Scheduler, node_scores};
pub use taint_eviction::TaintEvictionController;
pub use workloads::cron_job::CronJobController;
pub use workloads::daemon_set::DaemonSetController;
pub use workloads::deployment::DeploymentController;
pub use workloads::job::JobController;
pub use workloads::replica_set::{DeletionCosts, ReplicaSetController};
pub use workloads::stateful_set::StatefulSetController;
use workloads::{creations, replica_set, rollout, workload};

use super::server::{ApiServer, Status};
use jiff::Timestamp;

/// One controller.
pub trait Controller {
    /// Performs all work that is due now.
    ///
    /// # Errors
    /// When the API server rejects something that this controller expects to be accepted. Objects that others changed or deleted
    /// meanwhile are no error: the next step reads them.
    fn step(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status>;

    /// When something is due without any change, if anything is.
    fn next_wakeup(&self) -> Option<Timestamp>;
}

/// The maximum number of rounds until the controllers converge. A rollout of many replicas takes a few; more means that two
/// controllers revert each other's changes.
const ROUNDS: usize = 1_000;

/// All controllers of a cluster.
#[derive(Debug, Default)]
pub struct Controllers {
    /// Rolls out Deployments.
    pub deployments: DeploymentController,
    /// Maintains the size of ReplicaSets.
    pub replica_sets: ReplicaSetController,
    /// Maintains StatefulSets in order.
    pub stateful_sets: StatefulSetController,
    /// Creates a pod of each DaemonSet on each eligible node.
    pub daemon_sets: DaemonSetController,
    /// Runs Jobs to completion.
    pub jobs: JobController,
    /// Creates Jobs at the times of a schedule.
    pub cron_jobs: CronJobController,
    /// Makes ResourceClaims from templates, and releases them.
    pub resource_claims: ResourceClaimController,
    /// Publishes the devices of nodes.
    pub device_drivers: DeviceDrivers,
    /// Binds pods to nodes.
    pub scheduler: Scheduler,
    /// The machines, which register as nodes and run pods.
    pub kubelets: Kubelets,
    /// Handles nodes whose machine is gone, and the pods of deleted nodes.
    pub node_lifecycle: NodeLifecycleController,
    /// Deletes pods from nodes with NoExecute taints.
    pub taint_eviction: TaintEvictionController,
    /// Attaches volumes to the nodes of their pods, and detaches them.
    pub attach_detach: AttachDetachController,
    /// Updates the status of PodDisruptionBudgets.
    pub disruption: DisruptionController,
    /// Scales the targets of HorizontalPodAutoscalers.
    pub horizontal: HorizontalController,
    /// Updates the status of ResourceQuotas.
    pub quotas: QuotaController,
}

impl Controllers {
    fn all(&mut self) -> [&mut dyn Controller; 16] {
        [
            &mut self.kubelets,
            &mut self.node_lifecycle,
            &mut self.taint_eviction,
            &mut self.deployments,
            &mut self.replica_sets,
            &mut self.stateful_sets,
            &mut self.daemon_sets,
            &mut self.cron_jobs,
            &mut self.jobs,
            &mut self.resource_claims,
            &mut self.device_drivers,
            &mut self.scheduler,
            &mut self.attach_detach,
            &mut self.disruption,
            &mut self.horizontal,
            &mut self.quotas,
        ]
    }

    /// The clients of kube-controller-manager and kube-scheduler have their default limits from now on, or none. DaemonSets, and all that
    /// is not the creation of pods, have none.
    pub fn set_client_limits(&mut self, limited: bool, now: Timestamp) {
        self.scheduler.set_writes(limited.then_some(scheduler::WRITES));
        for creations in [&mut self.replica_sets.creations, &mut self.stateful_sets.creations, &mut self.jobs.creations]
        {
            creations.set_limited(limited, now);
        }
    }

    /// Deletes expired Events, and steps all controllers until none of them changes anything any more.
    ///
    /// # Errors
    /// The first error of a controller, or that they do not converge.
    pub fn converge(&mut self, api: &ApiServer, now: Timestamp) -> Result<(), Status> {
        api.expire_events();
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
