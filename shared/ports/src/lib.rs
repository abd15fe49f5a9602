//! The ports of the operations: a cluster, a cloud, a table of claims, queues, a clock.
//!
//! Each port has an adapter for AWS or Kubernetes, and one in memory in `nodeless-world`. The traits are used as `Arc<dyn …>`:
//! calls cross a network, so the cost of dynamic dispatch is negligible.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod capacity;
pub mod catalog_source;
pub mod claims;
pub mod clock;
pub mod cloud;
pub mod cluster;
pub mod costs;
pub mod decisions;
pub mod plans;
pub mod queue;
pub mod records;
pub mod shards;
pub mod state;
pub mod stored_catalog;
pub mod zonal_shift;

pub use capacity::{Capacity, LaunchAnswer, LaunchCheck, Refusal};
pub use catalog_source::{CatalogSource, ClusterVersion};
pub use claims::Claims;
pub use clock::Clock;
pub use cloud::Cloud;
pub use cluster::{ClaimMirror, Cluster, Configuration, Events, NodesAndPods, PlanningView, Workloads};
pub use costs::Costs;
pub use decisions::Decisions;
pub use nodeless_model::error::{ErrorKind, PortError};
pub use plans::Plans;
pub use queue::Queue;
pub use records::{RecordKind, Records, StoredRecord};
pub use shards::{Shards, StoredShard};
pub use state::State;
pub use stored_catalog::StoredCatalog;
pub use zonal_shift::{ShiftedZone, ZonalShift, ZonalShifts};
