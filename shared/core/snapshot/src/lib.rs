//! Exports of a cluster, YAML or JSON, as what planning looks at.
//!
//! [`Reader`] takes whatever `kubectl get … -o yaml` or `-o json` prints, and manifests as people write them: documents of
//! YAML and JSON in any mix, objects and Lists, in any order. [`Reader::finish`] gives a [`Snapshot`]: the same
//! [`ClusterView`](nodeless_api::view::ClusterView) that an API server gives, so that a plan made from files goes the
//! way of every other plan.
//!
//! What is missing is what an API server or admission would fill in (namespace, priority, allocatable); what is faulty is
//! a [`Fault`] that names source, document, object and field, and hides nothing else. The same objects give the same
//! snapshot, in whatever order they come. A pure room: no I/O, no clock.
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
