//! The ports of the operations: a cluster, a cloud, the claims table, queues, a topic, a clock.
//!
//! Each port has an adapter for AWS or Kubernetes, and one in memory in `nodeless-world`. The traits are used as `Arc<dyn …>`:
//! calls cross a network, so the cost of dynamic dispatch is negligible.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod catalog_source;
pub mod clock;
pub mod cloud;
pub mod cluster;
mod pod_batch;
pub mod queue;
pub mod table;
pub mod topic;
pub mod zonal_shift;

pub use catalog_source::{CatalogSource, ControlPlane, DescribeControlPlane};
pub use clock::Clock;
pub use cloud::Cloud;
pub use cluster::{ClaimMirror, Cluster, Configuration, Events, NodesAndPods, PlanningView, Workloads};
pub use nodeless_model::error::{ErrorKind, PortError, with_causes};
pub use queue::Queue;
pub use table::Table;
pub use topic::Topic;
pub use zonal_shift::{ShiftedZone, ZonalShift, ZonalShifts};
