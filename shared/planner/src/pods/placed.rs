//! Where pods are scheduled, real and virtual ones.

use crate::buffers::Reserved;
use crate::nodes::cluster_state::ClusterState;
use crate::pods::expected::Expected;
use crate::requests::Requested;
use nodeless_model::provisioning_request::Finding;
use nodeless_scheduling::{Problem, Solution};

/// Where pods are scheduled.
pub(crate) struct Placed<'a> {
    pub(crate) cluster_state: ClusterState<'a>,
    pub(crate) problem: Problem<'a>,
    pub(crate) solution: Solution,
    pub(crate) virtual_pods: VirtualPods<'a>,
    /// What was found for each request.
    pub(crate) findings: Vec<Finding>,
}

/// What virtual pods are for.
#[derive(Clone, Copy)]
pub(crate) struct VirtualPods<'a> {
    pub(crate) reserved: &'a [Reserved<'a>],
    pub(crate) requested: &'a [Requested<'a>],
    pub(crate) expected: &'a Expected,
}
