//! An API server in memory: a deterministic object store with the semantics of Kubernetes, and its HTTP API.
//!
//! Controllers in the same process use the synchronous methods of [`ApiServer`]; `kubectl` and client libraries use
//! [`ApiServer::router`]. Uids, generated names and revisions depend only on the seed and the order of calls, and time only on
//! the [`Clock`], so a run is reproducible.

mod admission;
mod api;
mod autoscaling;
mod bootstrap;
mod built_in_admission;
mod built_in_schemas;
mod columns;
mod conversion;
mod custom;
mod defaults;
mod definition;
mod discovery;
mod events;
mod eviction;
mod field_selector;
mod garbage;
mod http;
mod jsonpath;
mod limits;
pub(crate) mod metrics;
mod openapi;
mod patch;
mod patching;
pub(crate) mod path;
pub(crate) mod pod_resources;
mod protobuf;
mod quota;
pub mod resource;
mod scale;
mod schema;
mod selectors;
mod status;
mod store;
mod structure;
mod table;
mod time;
mod unknown_fields;
mod validation;
mod writes;

pub use api::{ApiServer, Clock, CreateOptions, List, ListOptions, Options, PatchOptions, UpdateOptions};
pub use garbage::{DeleteOptions, Preconditions, Propagation};
pub use metrics::LOAD;
pub use patch::PatchType;
pub use resource::Resource;
pub use selectors::LabelSelector;
pub use status::{Cause, FieldError, Status, Subject};
pub(crate) use store::controller_uid;
pub use store::{Change, ChangeKind};
pub use time::WallClock;

#[cfg(test)]
mod tests;
