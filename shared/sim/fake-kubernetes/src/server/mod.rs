//! An API server in memory: a deterministic object store with the semantics of Kubernetes, and its HTTP API.
//!
//! Controllers in the same process use the synchronous methods of [`ApiServer`]; `kubectl` and client libraries use
//! [`ApiServer::router`]. Uids, generated names and revisions depend only on the seed and the order of calls, and time only on
//! the [`Clock`], so a run is reproducible.

mod admission;
mod api;
mod bootstrap;
mod built_in_admission;
mod conversion;
mod eviction;
mod garbage;
mod http;
mod kinds;
pub(crate) mod metrics;
mod patch;
mod patching;
mod quota;
mod representation;
pub mod resource;
mod store;
mod validation;
mod values;
mod writes;

pub use api::{ApiServer, Clock, CreateOptions, List, ListOptions, Options, PatchOptions, UpdateOptions};
pub use garbage::{DeleteOptions, Preconditions, Propagation};
use kinds::{
    autoscaling, built_in_schemas, custom, defaults, definition, events, field_selector, pairs, scale, schema,
    structure, unknown_fields,
};
pub use metrics::LOAD;
pub use patch::PatchType;
use representation::{discovery, jsonpath, openapi, protobuf, table};
pub use resource::Resource;
pub(crate) use store::controller_uid;
pub use store::{Change, ChangeKind};
pub use values::selectors::LabelSelector;
pub use values::status::{Cause, FieldError, Status, Subject};
pub use values::time::WallClock;
use values::{limits, selectors, status, time};
pub(crate) use values::{path, pod_resources};

#[cfg(test)]
mod tests;
