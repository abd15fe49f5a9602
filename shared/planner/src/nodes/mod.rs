//! The nodes of the cluster, with the pods on them and those that are expected there.

pub(crate) mod cluster_state;
pub(crate) mod instances;
pub(crate) mod local_volumes;
pub(crate) mod node_events;
#[cfg(test)]
mod other_controllers;
pub(crate) mod place;
pub(crate) mod promised;
pub(crate) mod voluntary_disruption;
