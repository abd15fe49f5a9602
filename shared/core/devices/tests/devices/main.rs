//! Tests of the allocation of devices. The cases are those of the allocator of Kubernetes
//! (`k8s.io/dynamic-resource-allocation/structured`) and of Karpenter's (`pkg/scheduling/dynamicresources`), as far as they are about one
//! node: their test suites name them.
#![allow(clippy::unwrap_used)]
#![allow(clippy::needless_pass_by_value, reason = "tests write an object where they use it")]

mod allocating;
mod extended;
mod fitting;
mod known;
mod pooling;
mod properties;
mod refusing;
mod searching;
mod selecting;
mod support;
