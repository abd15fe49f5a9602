//! The resources of nodeless's custom resource definitions, for the API server in memory.

use nodeless_api::resources::{self, CustomResource};
use nodeless_fake_kubernetes::Resource;

const fn resource(of: CustomResource) -> Resource {
    Resource::new(of.group, of.version, of.plural, of.kind, of.namespaced)
}

/// NodePools of Karpenter.
pub const NODE_POOLS: Resource = resource(resources::NODE_POOLS);
/// NodeClaims of Karpenter.
pub const NODE_CLAIMS: Resource = resource(resources::NODE_CLAIMS);
/// EC2NodeClasses of Karpenter's AWS provider.
pub const NODE_CLASSES: Resource = resource(resources::NODE_CLASSES);
/// NodeOverlays of Karpenter.
pub const NODE_OVERLAYS: Resource = resource(resources::NODE_OVERLAYS);
/// CapacityBuffers of the Cluster Autoscaler's API.
pub const CAPACITY_BUFFERS: Resource = resource(resources::CAPACITY_BUFFERS);

/// ProvisioningRequests of the Cluster Autoscaler's API.
pub const PROVISIONING_REQUESTS: Resource = resource(resources::PROVISIONING_REQUESTS);

/// All of them.
pub const ALL: [Resource; 6] =
    [NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, CAPACITY_BUFFERS, PROVISIONING_REQUESTS];
