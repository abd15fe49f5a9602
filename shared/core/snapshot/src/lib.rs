//! Exports of a cluster, YAML or JSON, as the input of planning.
//!
//! [`Reader`] takes whatever `kubectl get … -o yaml` or `-o json` prints, and manifests as people write them: documents of
//! YAML and JSON in any mix, objects and Lists, in any order. [`Reader::finish`] gives a [`Snapshot`]: the same
//! [`ClusterView`](nodeless_api::view::ClusterView) that an API server gives, so that a plan made from files goes the
//! way of every other plan.
//!
//! Missing fields are filled in as an API server or admission would (namespace, priority, allocatable); an invalid
//! object is a [`Fault`] that names source, document, object and field, and hides nothing else. The same objects give
//! the same snapshot, whatever their order. A pure crate: no I/O, no clock.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod block;
mod complete;
mod decode;
mod documents;
mod fault;
mod items;
mod kinds;
mod objects;
mod reader;
mod snapshot;

pub use fault::{Fault, Place};
pub use reader::Reader;
pub use snapshot::{Held, Snapshot};
