//! Exports of a cluster, YAML or JSON, as the input of planning.
//!
//! [`Reader`] reads the output of `kubectl get … -o yaml` or `-o json`, and manifests: YAML and JSON documents, also mixed,
//! with objects and Lists in any order. [`Reader::finish`] returns a [`Snapshot`] with the same
//! [`ClusterView`](nodeless_api::view::ClusterView) as the one of an API server, so that plans from files are made like all
//! others.
//!
//! Missing fields are set as in an API server or admission (namespace, priority, allocatable). An invalid object is a
//! [`Fault`] with the source, document, object and field, and does not affect others; a YAML document that cannot be parsed is one as a
//! whole. The snapshot does not depend on the
//! order of the objects. The crate is pure: no I/O, no clock.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assumed;
mod complete;
mod created;
mod decode;
mod documents;
mod fault;
mod kinds;
mod manifests;
mod objects;
mod reader;
mod snapshot;
mod workloads;

pub use fault::{Fault, SourcePlace};
pub use manifests::{Identity, Manifest};
pub use reader::{Check, FieldCheck, Reader, UnknownField};
pub use snapshot::{Held, Snapshot};
pub use workloads::TemplatePath;
