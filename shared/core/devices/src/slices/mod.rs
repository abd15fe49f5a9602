//! What ResourceSlices offer: devices with attributes and taints, by pool and node.

pub(crate) mod attribute;
pub(crate) mod counters;
pub(crate) mod node_selector;
pub(crate) mod pools;
pub(crate) mod slice;
pub(crate) mod taint;
