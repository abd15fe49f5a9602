//! A Kubernetes control plane in memory: an API server that the real `kubectl` and any client library can use.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod controllers;
pub mod fields;
mod messages;
pub mod schema;
pub mod server;
mod size;

pub use messages::KUBERNETES;
pub use server::{
    ApiServer, Change, ChangeKind, Clock, CreateOptions, DeleteOptions, LOAD, ListOptions, Options, PatchOptions,
    PatchType, Preconditions, Propagation, Resource, Status, UpdateOptions, WallClock, resource,
};
