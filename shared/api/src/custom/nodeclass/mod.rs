//! EC2NodeClass: how instances are launched.

pub mod kubelet;
pub mod network;
pub mod selectors;
pub mod status;
pub mod storage;

pub use kubelet::KubeletConfiguration;
pub use network::{
    ConnectionTracking, CpuOptions, EnclaveOptions, InterfaceType, MetadataOptions, NetworkInterface,
    PlacementGroupSelector, Toggle, TokenUse,
};
pub use selectors::{
    AmiFamily, AmiSelectorTerm, CapacityReservationSelectorTerm, InstanceMatchCriteria, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
pub use status::{
    Ami, AmiRequirement, CapacityReservation, EC2NodeClassStatus, ReservationState, ReservationType, SecurityGroup,
    Subnet,
};
pub use storage::{BlockDevice, BlockDeviceMapping, InstanceStorePolicy, VolumeType};

use crate::custom::rules::rules;
use kube::CustomResource;
use nodeless_model::labels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

impl EC2NodeClass {
    /// The digests of the certificate authorities that the cluster had when the class was last resolved, by the annotation
    /// [`labels::CERTIFICATE_AUTHORITY`].
    #[must_use]
    pub fn certificate_authority(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(labels::CERTIFICATE_AUTHORITY).map(String::as_str)
    }
}

/// The problems of a spec: a sentence for each field, which names it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct SpecProblems(pub Vec<String>);

impl SpecProblems {
    /// The value, where nothing is wrong.
    ///
    /// # Errors
    /// These problems, where there are any.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<String> for SpecProblems {
    fn from(problem: String) -> Self {
        Self(vec![problem])
    }
}

/// The configuration of launches: network, image, role, disks and kubelet.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1",
    kind = "EC2NodeClass",
    plural = "ec2nodeclasses",
    singular = "ec2nodeclass",
    shortname = "ec2nc",
    shortname = "ec2ncs",
    category = "karpenter",
    status = "EC2NodeClassStatus",
    derive = "PartialEq",
    doc = "An EC2NodeClass defines how instances are launched: network, image, role, disks and kubelet.",
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role", priority = 1)
)]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct EC2NodeClassSpec {
    /// The subnets that instances may be launched into: those that any of the terms selects.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = rules(&[
        ("subnetSelectorTerms cannot be empty", "self.size() != 0"),
        ("expected at least one, got none, ['tags', 'id']", "self.all(x, has(x.tags) || has(x.id))"),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
            "!self.all(x, has(x.id) && has(x.tags))",
        ),
    ])))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// The security groups of the instances: those that any of the terms selects.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = rules(&[
        ("securityGroupSelectorTerms cannot be empty", "self.size() != 0"),
        ("expected at least one, got none, ['tags', 'id', 'name']", "self.all(x, has(x.tags) || has(x.id) || has(x.name))"),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        ),
        (
            "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        ),
    ])))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// The capacity reservations that may be used: those that any of the terms selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = rules(&[
        (
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
            "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        ),
        (
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        ),
    ])))]
    pub capacity_reservation_selector_terms: Vec<CapacityReservationSelectorTerm>,
    /// The placement group of the instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Whether instances get a public IPv4 address. When absent, the subnet decides.
    #[serde(rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// The number of IPv4 or IPv6 prefixes of the network interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ip_prefix_count: Option<i32>,
    /// The images that instances may be launched from: those that any of the terms selects.
    #[schemars(length(min = 1, max = 30), extend("x-kubernetes-validations" = selectors::ami_rules()))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// The format of the user data, and the default disks. An alias in `amiSelectorTerms` implies it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// User data of your own, which what is needed to join the cluster is merged into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// The IAM role of the nodes. Excludes `instanceProfile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[("role cannot be empty", "self != ''")])))]
    pub role: Option<String>,
    /// An IAM instance profile of your own. Excludes `role`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules(&[("instanceProfile cannot be empty", "self != ''")])))]
    pub instance_profile: Option<String>,
    /// Tags of everything that is made in EC2 for the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = tag_rules()))]
    pub tags: BTreeMap<String, String>,
    /// The kubelet's configuration: all of its settings may be here. The condition ValidationSucceeded reports the problems of
    /// settings that the definition does not know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "kubelet::schema::schema")]
    pub kubelet: BTreeMap<String, Value>,
    /// The disks of the instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), extend("x-kubernetes-validations" = rules(&[(
        "must have only one blockDeviceMappings with rootVolume",
        "self.filter(x, has(x.rootVolume)?x.rootVolume==true:false).size() <= 1",
    )])))]
    pub block_device_mappings: Vec<BlockDeviceMapping>,
    /// The use of the instance type's local disks. They are left alone when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// The network interfaces of the instances, for types with several network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 150), extend("x-kubernetes-validations" = network::interface_rules()))]
    pub network_interfaces: Vec<NetworkInterface>,
    /// Whether CloudWatch gets metrics every minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// The options of the instance metadata service.
    #[serde(default)]
    #[schemars(extend("default" = {
        "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required"
    }))]
    pub metadata_options: MetadataOptions,
    /// After how long idle connections are forgotten. Only Nitro types can do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Passed to CreateFleet as its context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Options of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Nitro Enclaves, which are disabled when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
}

impl EC2NodeClassSpec {
    /// Whether Nitro Enclaves are enabled.
    #[must_use]
    pub fn enclaves(&self) -> bool {
        self.enclave_options.as_ref().is_some_and(|options| options.enabled)
    }
}

impl EC2NodeClassSpec {
    /// The AMI family that applies: the one that is named, else the one that the alias implies.
    #[must_use]
    pub fn resolved_ami_family(&self) -> Option<AmiFamily> {
        self.ami_family.or_else(|| self.alias().and_then(|(family, _)| family))
    }

    /// Family and version of the alias, if a term has one; no family when it is none that is known.
    #[must_use]
    pub fn alias(&self) -> Option<(Option<AmiFamily>, &str)> {
        let alias = self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref())?;
        let (family, version) = alias.split_once('@').unwrap_or((alias, ""));
        Some((AmiFamily::from_alias(family), version))
    }
}

fn spec_rules() -> Value {
    let mut list = vec![rule(
        "must specify exactly one of ['role', 'instanceProfile']",
        "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",
    )];
    for family in AmiFamily::WITH_ALIAS {
        let (name, alias) = (family.name(), family.name().to_lowercase());
        let article = if name.starts_with('A') { "an" } else { "a" };
        list.push(rule(
            &format!("if set, amiFamily must be '{name}' or 'Custom' when using {article} {name} alias"),
            &format!(
                "!has(self.amiFamily) || (self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.find('^[^@]+') == \
                 '{alias}') ? (self.amiFamily == 'Custom' || self.amiFamily == '{name}') : true)"
            ),
        ));
    }
    list.push(rule(
        "must specify amiFamily if amiSelectorTerms does not contain an alias",
        "self.amiSelectorTerms.exists(x, has(x.alias)) ? true : has(self.amiFamily)",
    ));
    Value::Array(list)
}

fn rule(message: &str, rule: &str) -> Value {
    serde_json::json!({ "message": message, "rule": rule })
}

fn tag_rules() -> Value {
    rules(&[
        ("empty tag keys aren't supported", "self.all(k, k != '')"),
        ("tag contains a restricted tag matching eks:eks-cluster-name", "self.all(k, k != 'eks:eks-cluster-name')"),
        (
            "tag contains a restricted tag matching kubernetes.io/cluster/",
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
        ),
        ("tag contains a restricted tag matching karpenter.sh/nodepool", "self.all(k, k != 'karpenter.sh/nodepool')"),
        ("tag contains a restricted tag matching karpenter.sh/nodeclaim", "self.all(k, k != 'karpenter.sh/nodeclaim')"),
        (
            "tag contains a restricted tag matching karpenter.k8s.aws/ec2nodeclass",
            "self.all(k, k != 'karpenter.k8s.aws/ec2nodeclass')",
        ),
    ])
}
