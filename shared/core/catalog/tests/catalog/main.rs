//! Instance types compared with those that Karpenter publishes.
#![allow(clippy::unwrap_used)]

mod published;
