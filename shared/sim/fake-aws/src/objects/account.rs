//! The initial resources of the account: network, images, profiles, and timing.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use nodeless_model::listed_commitments::AccountCommitments;
use serde_json::{Value, json};

use super::facts::RegionFacts;
use super::offering::CapacityType;
use super::quota_family::QuotaFamily;

/// Tags of one resource.
pub type Tags = BTreeMap<String, String>;

/// A virtual network.
#[derive(Debug, Clone, PartialEq)]
pub struct Vpc {
    /// `vpc-…`
    pub id: String,
    /// IPv4 block.
    pub cidr: String,
    /// Whether it is the account's default VPC.
    pub is_default: bool,
}

/// A subnet in one zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Subnet {
    /// `subnet-…`
    pub id: String,
    /// The VPC that it is part of.
    pub vpc_id: String,
    /// Zone name.
    pub zone: String,
    /// IPv4 block, in which instances get addresses.
    pub cidr: String,
    /// Addresses that are available for instances.
    pub free_addresses: u32,
    /// Whether this is the default subnet of its zone.
    pub default_for_zone: bool,
    /// Whether instances get a public address by default.
    pub public: bool,
}

/// A security group.
#[derive(Debug, Clone, PartialEq)]
pub struct SecurityGroup {
    /// `sg-…`
    pub id: String,
    /// Name, unique in the VPC.
    pub name: String,
    /// The VPC that it is part of.
    pub vpc_id: String,
    /// Description.
    pub description: String,
}

/// A machine image.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// `ami-…`
    pub id: String,
    /// Name, on which name selectors match.
    pub name: String,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Owning account; `amazon` images carry an alias too.
    pub owner_id: String,
    /// `amazon` for Amazon's own images.
    pub owner_alias: Option<String>,
    /// Creation time.
    pub created: Timestamp,
    /// When it is or was deprecated.
    pub deprecated: Option<Timestamp>,
    /// Root device, such as `/dev/xvda`.
    pub root_device: String,
    /// Size of the root volume in GiB.
    pub root_volume_gib: u32,
    /// `available` unless it is pending or deregistered.
    pub state: String,
    /// `windows` for Windows images.
    pub platform: Option<String>,
}

/// A capacity reservation.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityReservation {
    /// `cr-…`
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// Instances reserved.
    pub total: u32,
    /// Available instances.
    pub available: u32,
    /// Whether instances use the reservation implicitly (`open`), or only by its id (`targeted`).
    pub open: bool,
    /// Start time.
    pub start: Timestamp,
    /// End time, if it has one.
    pub end: Option<Timestamp>,
    /// Whether it is an interruptible reservation, which only launches of that market type use.
    pub interruptible: bool,
}

/// A placement group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementGroup {
    /// `pg-…`
    pub id: String,
    /// Name, unique in the account.
    pub name: String,
    /// `cluster`, `partition` or `spread`. A spread group has at most seven running machines in a zone.
    pub strategy: String,
    /// The number of partitions of a partition group; 0 with another strategy.
    pub partitions: u32,
    /// The number of machines that a cluster group, or each partition of a partition group, has capacity for; `None` is unlimited.
    pub capacity: Option<u64>,
}

/// An IAM instance profile.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceProfile {
    /// Name, unique in the account.
    pub name: String,
    /// Path, `/` unless it was given.
    pub path: String,
    /// `AIPA…`
    pub id: String,
    /// Names of its roles: none or one.
    pub roles: Vec<String>,
    /// Creation time.
    pub created: Timestamp,
    /// Tags.
    pub tags: Tags,
}

/// An EKS cluster as DescribeCluster returns it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Cluster name.
    pub name: String,
    /// URL of the Kubernetes API.
    pub endpoint: String,
    /// The API's certificate authority: PEM in base64.
    pub certificate_authority: String,
    /// Kubernetes minor version, such as `1.33`.
    pub version: String,
    /// Block of service addresses.
    pub service_cidr: String,
    /// The cluster's VPC.
    pub vpc_id: String,
    /// Subnets of the control plane's interfaces.
    pub subnet_ids: Vec<String>,
    /// The cluster security group.
    pub security_group_id: String,
    /// The `controlPlaneEgressMode`, such as `CUSTOMER_ROUTED`; `None` for a cluster that is older than the setting.
    pub egress_mode: Option<String>,
    /// The `authenticationMode`: `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`, which has no access entries.
    pub authentication_mode: String,
    /// The access entries: for the ARN of each principal its access policies, and for the ARN of each policy the type of its scope.
    pub access_entries: BTreeMap<String, BTreeMap<String, String>>,
    /// Creation time.
    pub created: Timestamp,
}

/// Durations in virtual time.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// From launch to `running`.
    pub start_up: SignedDuration,
    /// From `shutting-down` to `terminated`, and from `stopping` to `stopped`.
    pub shut_down: SignedDuration,
    /// How long a terminated instance is still returned. EC2: about an hour.
    pub terminated_visible: SignedDuration,
    /// From the interruption warning to the end of a spot instance. EC2: two minutes.
    pub spot_warning: SignedDuration,
    /// The time until describe calls return a new instance. EC2 is eventually consistent; usually zero to seconds.
    pub visibility_delay: SignedDuration,
    /// The additional delay of each further instance of a call: the list of launched instances grows.
    pub visibility_spread: SignedDuration,
    /// The time until the tags of a new instance are returned.
    pub tags_delay: SignedDuration,
    /// How long a client token is valid.
    pub client_token: SignedDuration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            start_up: SignedDuration::from_secs(15),
            shut_down: SignedDuration::from_secs(30),
            terminated_visible: SignedDuration::from_hours(1),
            spot_warning: SignedDuration::from_secs(120),
            visibility_delay: SignedDuration::ZERO,
            visibility_spread: SignedDuration::ZERO,
            tags_delay: SignedDuration::ZERO,
            client_token: SignedDuration::from_hours(24),
        }
    }
}

/// The initial account.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Twelve digits.
    pub id: String,
    /// The catalog of the region.
    pub facts: Arc<RegionFacts>,
    /// Virtual networks.
    pub vpcs: Vec<Vpc>,
    /// Subnets.
    pub subnets: Vec<Subnet>,
    /// Security groups.
    pub security_groups: Vec<SecurityGroup>,
    /// Images.
    pub images: Vec<Image>,
    /// Instance profiles.
    pub instance_profiles: Vec<InstanceProfile>,
    /// Roles that instance profiles may hold.
    pub roles: Vec<String>,
    /// Capacity reservations.
    pub capacity_reservations: Vec<CapacityReservation>,
    /// The quotas of vCPUs. A family without an entry has no quota.
    pub vcpu_quotas: BTreeMap<(CapacityType, QuotaFamily), u64>,
    /// The number of instances that can be launched at once: the size of RunInstances' bucket of instances, which AWS raises on request.
    pub launches_at_once: u32,
    /// Placement groups.
    pub placement_groups: Vec<PlacementGroup>,
    /// Savings Plans and Reserved Instances; `None` if no deployment reads them. They change no price that EC2 reports.
    pub commitments: Option<AccountCommitments>,
    /// EKS clusters.
    pub clusters: Vec<Cluster>,
    /// SSM parameters by name.
    pub parameters: BTreeMap<String, String>,
    /// Tags by resource id.
    pub tags: BTreeMap<String, Tags>,
    /// The tags that the IAM policy of the caller requires of everything that CreateFleet, RunInstances and CreateLaunchTemplate create, as
    /// conditions on `aws:RequestTag`; the value `*` allows any. EC2 evaluates them for dry runs too. There is no policy if it is empty.
    pub required_tags: Tags,
    /// Durations in virtual time.
    pub timing: Timing,
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>
const LAUNCHES_AT_ONCE: u32 = 1000;

/// The account of Amazon's EKS images.
const EKS_IMAGES_OWNER: &str = "602401143452";

/// The account of Amazon's Windows images.
const WINDOWS_IMAGES_OWNER: &str = "801119661308";

/// Releases of Windows Server, and the first minor version of Kubernetes 1 that EKS has images of them for.
const WINDOWS_RELEASES: [(&str, u32); 3] = [("2019", 0), ("2022", 0), ("2025", 35)];

impl Account {
    /// An account that contains only the catalog of the region.
    pub fn empty(id: &str, facts: RegionFacts) -> Self {
        Self {
            id: id.to_owned(),
            facts: Arc::new(facts),
            vpcs: Vec::new(),
            subnets: Vec::new(),
            security_groups: Vec::new(),
            images: Vec::new(),
            instance_profiles: Vec::new(),
            roles: Vec::new(),
            capacity_reservations: Vec::new(),
            vcpu_quotas: BTreeMap::new(),
            launches_at_once: LAUNCHES_AT_ONCE,
            placement_groups: Vec::new(),
            commitments: None,
            clusters: Vec::new(),
            parameters: BTreeMap::new(),
            tags: BTreeMap::new(),
            required_tags: Tags::new(),
            timing: Timing::default(),
        }
    }

    /// An account ready for one EKS cluster: a VPC, a private subnet of 4,091 addresses a zone and a node security
    /// group, all tagged `karpenter.sh/discovery=CLUSTER`; the EKS-optimised images of AL2023 and Bottlerocket for
    /// both architectures, and of Windows, with their SSM parameters; and a role of Linux nodes and one of Windows nodes with their
    /// instance profiles.
    pub fn for_cluster(id: &str, facts: RegionFacts, cluster: &str, version: &str, now: Timestamp) -> Self {
        let mut account = Self::empty(id, facts);
        let vpc_id = "vpc-0a0000000000000001".to_owned();
        account.vpcs.push(Vpc { id: vpc_id.clone(), cidr: "10.0.0.0/16".to_owned(), is_default: false });
        let group_id = "sg-0a0000000000000001".to_owned();
        account.security_groups.push(SecurityGroup {
            id: group_id.clone(),
            name: format!("{cluster}-node"),
            vpc_id: vpc_id.clone(),
            description: format!("Nodes of {cluster}"),
        });
        let discovery = Tags::from([("karpenter.sh/discovery".to_owned(), cluster.to_owned())]);
        account.tags.insert(group_id, discovery.clone());
        let zones = account.facts.zones.clone();
        for (index, zone) in zones.iter().enumerate().take(16) {
            let subnet_id = format!("subnet-0a{index:015x}");
            account.tags.insert(subnet_id.clone(), discovery.clone());
            account.subnets.push(Subnet {
                id: subnet_id,
                vpc_id: vpc_id.clone(),
                zone: zone.name.clone(),
                cidr: format!("10.0.{}.0/20", index * 16),
                free_addresses: 4091,
                default_for_zone: false,
                public: false,
            });
        }
        account.add_eks_images(version, now);
        account.add_role(format!("{cluster}-node"), now);
        account.add_role(format!("{cluster}-windows-node"), now);
        account
    }

    /// Requires the tags that the policy of the functions in `terraform/iam.tf` requires for the nodes of a cluster.
    pub fn require_tags_of(&mut self, cluster: &str) {
        let tags = [
            (format!("kubernetes.io/cluster/{cluster}"), "owned"),
            ("eks:eks-cluster-name".to_owned(), cluster),
            ("karpenter.sh/nodepool".to_owned(), "*"),
        ];
        self.required_tags = tags.map(|(key, value)| (key, value.to_owned())).into();
    }

    /// Adds a role and an instance profile of its name.
    fn add_role(&mut self, role: String, now: Timestamp) {
        self.roles.push(role.clone());
        self.instance_profiles.push(InstanceProfile {
            name: role.clone(),
            path: "/".to_owned(),
            id: format!("AIPASIMULATED{:08}", self.instance_profiles.len() + 1),
            roles: vec![role],
            created: now,
            tags: Tags::new(),
        });
    }

    /// Adds a placement group of each strategy, `CLUSTER-cluster`, `CLUSTER-partition` with the most partitions that a zone may have, and
    /// `CLUSTER-spread`.
    pub fn add_placement_groups(&mut self, cluster: &str) {
        for (strategy, partitions) in [("cluster", 0), ("partition", 7), ("spread", 0)] {
            self.placement_groups.push(PlacementGroup {
                id: format!("pg-0a{:015x}", self.placement_groups.len()),
                name: format!("{cluster}-{strategy}"),
                strategy: strategy.to_owned(),
                partitions,
                capacity: None,
            });
        }
    }

    /// Adds an EKS cluster in the account's first VPC. `certificate_authority` is PEM in base64.
    pub fn add_cluster(
        &mut self,
        name: &str,
        endpoint: &str,
        certificate_authority: &str,
        version: &str,
        now: Timestamp,
    ) {
        self.clusters.retain(|cluster| cluster.name != name);
        self.clusters.push(Cluster {
            name: name.to_owned(),
            endpoint: endpoint.to_owned(),
            certificate_authority: certificate_authority.to_owned(),
            version: version.to_owned(),
            service_cidr: "172.20.0.0/16".to_owned(),
            vpc_id: self.vpcs.first().map(|vpc| vpc.id.clone()).unwrap_or_default(),
            subnet_ids: self.subnets.iter().map(|subnet| subnet.id.clone()).collect(),
            security_group_id: self.security_groups.first().map(|group| group.id.clone()).unwrap_or_default(),
            egress_mode: None,
            authentication_mode: "API".to_owned(),
            access_entries: BTreeMap::new(),
            created: now,
        });
    }

    /// Adds the EKS-optimised images of a Kubernetes version, and the SSM parameters that point at them.
    pub fn add_eks_images(&mut self, version: &str, now: Timestamp) {
        for architecture in ["x86_64", "arm64"] {
            self.add_linux_images(version, architecture, now);
        }
        self.add_windows_images(version, now);
    }

    fn add_linux_images(&mut self, version: &str, architecture: &str, now: Timestamp) {
        let stamp = now.strftime("%Y%m%d").to_string();
        for variant in ["standard", "nvidia", "neuron"] {
            if variant == "neuron" && architecture == "arm64" {
                continue;
            }
            let name = format!("amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{stamp}");
            let base = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}");
            let parameters = [format!("{base}/recommended/image_id"), format!("{base}/{name}/image_id")];
            self.add_image(&parameters, eks_image(name, architecture, now));
        }
        for suffix in ["", "-nvidia"] {
            let flavour = format!("aws-k8s-{version}{suffix}");
            let base = format!("/aws/service/bottlerocket/{flavour}/{architecture}");
            let name = format!("bottlerocket-{flavour}-{architecture}-v1.40.0-{stamp}");
            let parameters = [format!("{base}/latest/image_id"), format!("{base}/1.40.0/image_id")];
            self.add_image(&parameters, Image { root_volume_gib: 2, ..eks_image(name, architecture, now) });
        }
    }

    /// <https://docs.aws.amazon.com/eks/latest/userguide/retrieve-windows-ami-id.html>
    fn add_windows_images(&mut self, version: &str, now: Timestamp) {
        let minor = version.split_once('.').and_then(|(_, minor)| minor.parse().ok()).unwrap_or(0);
        for (release, _) in WINDOWS_RELEASES.iter().filter(|(_, since)| minor >= *since) {
            let latest = format!("Windows_Server-{release}-English-Core-EKS_Optimized-{version}");
            let parameters = [format!("/aws/service/ami-windows-latest/{latest}/image_id")];
            let name = format!("{latest}-{}", now.strftime("%Y.%m.%d"));
            let image = Image {
                owner_id: WINDOWS_IMAGES_OWNER.to_owned(),
                root_device: "/dev/sda1".to_owned(),
                root_volume_gib: 50,
                platform: Some("windows".to_owned()),
                ..eks_image(name, "x86_64", now)
            };
            self.add_image(&parameters, image);
        }
    }

    /// Adds an image under the next free id, which replaces those that the parameters point at.
    fn add_image(&mut self, parameters: &[String], image: Image) {
        let id = format!("ami-{:08x}{:09x}", 0xa1 + self.images.len(), 1);
        for parameter in parameters {
            self.parameters.insert(parameter.clone(), id.clone());
        }
        self.images.push(Image { id, ..image });
    }

    /// The EventBridge envelope of an event about this account.
    pub(crate) fn event(&self, id: &str, detail_type: &str, at: Timestamp, resource: &str, detail: &Value) -> Value {
        json!({
            "version": "0",
            "id": id,
            "detail-type": detail_type,
            "source": "aws.ec2",
            "account": self.id,
            "time": at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "region": self.facts.region,
            "resources": [format!("arn:aws:ec2:{}:{}:instance/{resource}", self.facts.region, self.id)],
            "detail": detail,
        })
    }
}

/// An image of Linux for EKS, without an id.
fn eks_image(name: String, architecture: &str, now: Timestamp) -> Image {
    Image {
        id: String::new(),
        name,
        architecture: architecture.to_owned(),
        owner_id: EKS_IMAGES_OWNER.to_owned(),
        owner_alias: Some("amazon".to_owned()),
        created: now,
        deprecated: None,
        root_device: "/dev/xvda".to_owned(),
        root_volume_gib: 20,
        state: "available".to_owned(),
        platform: None,
    }
}

impl CapacityReservation {
    /// The state of the reservation at a time.
    pub fn state(&self, now: Timestamp) -> &'static str {
        if self.end.is_some_and(|end| end <= now) {
            "expired"
        } else if self.start > now {
            "scheduled"
        } else {
            "active"
        }
    }
}
