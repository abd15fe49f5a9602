//! The custom resources as the API server names them, in one list. A test compares it with the definitions.

/// A custom resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomResource {
    /// The API group.
    pub group: &'static str,
    /// The version that is read and written.
    pub version: &'static str,
    /// The plural name, in lower case.
    pub plural: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// The group and the version, as `apiVersion` of an object.
    pub api_version: &'static str,
    /// The path of all its objects.
    pub path: &'static str,
    /// The name of its CustomResourceDefinition.
    pub definition: &'static str,
}

macro_rules! custom_resource {
    ($group:literal, $version:literal, $plural:literal, $kind:literal, $namespaced:literal) => {
        CustomResource {
            group: $group,
            version: $version,
            plural: $plural,
            kind: $kind,
            namespaced: $namespaced,
            api_version: concat!($group, "/", $version),
            path: concat!("/apis/", $group, "/", $version, "/", $plural),
            definition: concat!($plural, ".", $group),
        }
    };
}

/// NodePools of Karpenter.
pub const NODE_POOLS: CustomResource = custom_resource!("karpenter.sh", "v1", "nodepools", "NodePool", false);
/// NodeClaims of Karpenter.
pub const NODE_CLAIMS: CustomResource = custom_resource!("karpenter.sh", "v1", "nodeclaims", "NodeClaim", false);
/// EC2NodeClasses of Karpenter's AWS provider.
pub const NODE_CLASSES: CustomResource =
    custom_resource!("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", false);
/// NodeOverlays of Karpenter.
pub const NODE_OVERLAYS: CustomResource =
    custom_resource!("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", false);
/// CapacityBuffers of the Cluster Autoscaler's API.
pub const CAPACITY_BUFFERS: CustomResource =
    custom_resource!("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", true);

/// ProvisioningRequests of the Cluster Autoscaler's API.
pub const PROVISIONING_REQUESTS: CustomResource =
    custom_resource!("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", true);

/// All of them, in the order of [`crate::crds()`].
pub const ALL: [CustomResource; 6] =
    [NODE_POOLS, NODE_CLAIMS, NODE_CLASSES, NODE_OVERLAYS, CAPACITY_BUFFERS, PROVISIONING_REQUESTS];

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn resources_are_those_of_the_definitions() {
        let definitions = crate::crds().unwrap();
        assert_eq!(definitions.len(), ALL.len());
        for (definition, resource) in definitions.iter().zip(ALL) {
            let spec = &definition.spec;
            assert_eq!(definition.metadata.name.as_deref(), Some(resource.definition));
            assert_eq!(
                (spec.group.as_str(), spec.names.plural.as_str(), spec.names.kind.as_str()),
                (resource.group, resource.plural, resource.kind)
            );
            assert!(spec.versions.iter().any(|version| version.served && version.name == resource.version));
            assert_eq!(resource.namespaced, spec.scope == "Namespaced");
        }
    }
}
