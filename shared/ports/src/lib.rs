//! What operations need of the world: a cluster, a cloud, a store of claims, queues, a clock.
//!
//! Each port has an adapter for AWS or Kubernetes, and one in memory in `nodeless-world`. The traits are used as
//! `Arc<dyn …>`: calls cross a network, so dynamic dispatch costs nothing that counts and keeps operations readable.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod catalog_source;
pub mod claims;
pub mod clock;
pub mod cloud;
pub mod cluster;
pub mod queue;
pub mod zonal_shift;

pub use catalog_source::{CatalogSource, ClusterVersion};
pub use claims::Claims;
pub use clock::Clock;
pub use cloud::Cloud;
pub use cluster::Cluster;
pub use nodeless_model::error::{ErrorKind, PortError};
pub use nodeless_model::launch_check::{LaunchAnswer, LaunchCheck, Refusal};
pub use queue::Queue;
pub use zonal_shift::{ShiftedZone, StoredZonalShifts, ZonalShift, ZonalShifts};
