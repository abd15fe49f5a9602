//! The resources of nodeless's custom resource definitions, as the API server names them.

use nodeless_fake_kubernetes::Resource;

/// NodePools of Karpenter.
pub const NODE_POOLS: Resource = Resource::new("karpenter.sh", "v1", "nodepools", "NodePool", false);
/// NodeClaims of Karpenter.
pub const NODE_CLAIMS: Resource = Resource::new("karpenter.sh", "v1", "nodeclaims", "NodeClaim", false);
/// EC2NodeClasses of Karpenter's AWS provider.
pub const NODE_CLASSES: Resource = Resource::new("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", false);
/// NodeOverlays of Karpenter.
pub const NODE_OVERLAYS: Resource = Resource::new("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", false);
/// CapacityBuffers of the Cluster Autoscaler's API.
pub const CAPACITY_BUFFERS: Resource =
    Resource::new("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", true);

/// All of them.
pub const ALL: [Resource; 5] = [NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, CAPACITY_BUFFERS];

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn resources_are_those_of_the_definitions() {
        let definitions = nodeless_api::crds().unwrap();
        assert_eq!(definitions.len(), ALL.len());
        for definition in definitions {
            let spec = &definition.spec;
            let resource = ALL.into_iter().find(|resource| resource.kind == spec.names.kind).unwrap();
            assert_eq!((resource.group.as_ref(), resource.plural.as_ref()), (&*spec.group, &*spec.names.plural));
            assert!(spec.versions.iter().any(|version| version.served && version.name == resource.version));
            assert_eq!(resource.namespaced, spec.scope == "Namespaced");
        }
    }
}
