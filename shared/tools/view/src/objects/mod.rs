//! The objects of a cluster that are shown, and the rows of those that have one.

pub(crate) mod amount;
pub(crate) mod claim;
pub(crate) mod cluster;
pub(crate) mod cluster_settings;
pub(crate) mod decode;
pub(crate) mod event;
pub(crate) mod node;
pub(crate) mod node_class;
pub(crate) mod node_state;
pub(crate) mod pending;
pub(crate) mod pod;
pub(crate) mod pool;
