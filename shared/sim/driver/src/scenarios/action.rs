//! What happens at given times: the actions of a scenario file, and their fields.

use super::{default_namespace, durations};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// An action and its time.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Value>")]
pub struct TimedAction {
    /// The time after the start.
    pub after: SignedDuration,
    /// The action.
    pub action: Action,
}

impl TryFrom<BTreeMap<String, Value>> for TimedAction {
    type Error = String;

    fn try_from(mut fields: BTreeMap<String, Value>) -> Result<Self, String> {
        let after = fields.remove("after").ok_or("an action needs the field after")?;
        let after = durations::parse(after.as_str().unwrap_or(&after.to_string()))?;
        if fields.len() != 1 {
            let given: Vec<&str> = fields.keys().map(String::as_str).collect();
            return Err(format!("an action has one field beside after, not {given:?}"));
        }
        let rest = Value::Object(fields.into_iter().collect());
        Ok(Self { after, action: serde_json::from_value(rest).map_err(|error| error.to_string())? })
    }
}

/// An action of a user, of a workload or of EC2.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Creates or replaces an object.
    Apply(Value),
    /// Changes the status of an object.
    ApplyStatus(Value),
    /// Deletes an object.
    Delete(Named),
    /// Deletes the NodeClaim objects of this number of nodes, chosen at random.
    DeleteNodeClaims(u32),
    /// Deletes this number of Node objects, chosen at random.
    DeleteNodes(u32),
    /// EC2 interrupts this number of spot instances, chosen at random.
    InterruptSpot(u32),
    /// EC2 recommends rebalancing this number of spot instances, chosen at random.
    RebalanceSpot(u32),
    /// This number of machines, chosen at random, stop without warning.
    KillMachines(u32),
    /// This number of machines, chosen at random, stop responding while EC2 still runs them.
    SilenceMachines(u32),
    /// The EC2 status checks of this number of machines, chosen at random, fail from then on.
    ImpairMachines(u32),
    /// A user removes the tags by which nodeless finds its instances from this number of instances, chosen at random.
    UntagMachines(u32),
    /// A user restores the claims table to its contents of a time before.
    RestoreTable(Restore),
    /// The claims table is deleted and created again, empty.
    RecreateTable,
    /// The prices of EC2 change.
    ChangePrices(ChangePrices),
    /// The account buys Reserved Instances.
    BuyReservedInstances(BuyReservedInstances),
    /// The account buys a Savings Plan.
    BuySavingsPlan(BuySavingsPlan),
    /// EKS adds a successor of the cluster's certificate authority to what clients are to trust.
    AddCertificateAuthority,
    /// EKS signs with the successor from then on.
    ActivateCertificateAuthority,
    /// The readiness probes of running pods fail for a time.
    UnreadyPods(SomePods),
    /// Pods do not stop when they are deleted, for a time.
    HangingPods(SomePods),
    /// The kube-scheduler places no pods with a label, for a time.
    RefusePods(RefusePods),
    /// Volumes take longer to detach, for a time.
    SlowDetachments(SlowDetachments),
    /// A new EKS image is published, so that nodes drift.
    NewImages(u32),
    /// A user makes a NodePool or an EC2NodeClass unusable, and corrects it later.
    Misconfigure(Misconfigure),
    /// A user deletes NodePools, and creates them again later.
    RecreateNodePools(Recreate),
    /// EC2 lacks capacity of offerings for a time.
    Shortage(Shortage),
    /// The cluster is shifted away from a zone for a time.
    ZonalShift(OneZone),
    /// A service fails for a time.
    Outage(Outage),
    /// A service answers slowly for a time.
    SlowCalls(SlowCalls),
    /// A zone fails as a whole for a time.
    ZoneFailure(OneZone),
    /// Calls of an EC2 API are not authorized for a time.
    Denial(Denial),
    /// The account has a quota of vCPUs for a time.
    Quota(Quota),
    /// The next instances do not become nodes.
    BadMachines(BadMachines),
}

/// An object by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Named {
    /// The kind.
    pub kind: String,
    /// The namespace, for kinds that have one.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The time to which the claims table is restored.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restore {
    /// How long before.
    #[serde(deserialize_with = "durations::one")]
    pub ago: SignedDuration,
}

/// Offerings that are unavailable for a time. An absent field matches all.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shortage {
    /// The instance type.
    #[serde(default)]
    pub instance_type: Option<String>,
    /// The zone.
    #[serde(default)]
    pub zone: Option<String>,
    /// `spot` or `on-demand`.
    #[serde(default)]
    pub capacity_type: Option<String>,
    /// The number of machines that these offerings still provide in total.
    #[serde(default)]
    pub left: u64,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// A wrong edit of a NodePool or an EC2NodeClass, chosen at random, for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Misconfigure {
    /// The fault.
    pub fault: Misconfiguration,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// The fault of a NodePool or an EC2NodeClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Misconfiguration {
    /// A NodePool requires an instance type that does not exist.
    UnknownInstanceType,
    /// A NodePool has a requirement that no instance type satisfies.
    NoInstanceType,
    /// The subnet selector of an EC2NodeClass matches nothing.
    NoSubnets,
    /// The security group selector of an EC2NodeClass matches nothing.
    NoSecurityGroups,
    /// The AMI selector of an EC2NodeClass matches nothing.
    NoAmis,
}

/// NodePools, chosen at random, that do not exist for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recreate {
    /// The number of NodePools.
    pub count: u32,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// A zone for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OneZone {
    /// The name of the zone.
    pub zone: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// An outage of a service.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outage {
    /// `claims`, `cluster`, `cloud`, `source`, `queue`, `arc`, or the prefix of an operation's name such as `cloud launch`.
    pub of: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
    /// Whether the service throttles the calls, instead of not answering them.
    #[serde(default)]
    pub throttled: bool,
}

/// A service that answers slowly.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowCalls {
    /// What is slow, as [`Outage::of`].
    pub of: String,
    /// How long each call takes.
    #[serde(deserialize_with = "durations::one")]
    pub take: SignedDuration,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// Calls that EC2 answers with `UnauthorizedOperation` for a time, as after a wrong change of an IAM policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denial {
    /// The API, such as `CreateFleet`.
    pub api: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// The APIs of EC2 that nodeless calls for instances.
pub(super) const DENIABLE: [&str; 12] = [
    "CreateFleet",
    "CreateLaunchTemplate",
    "CreateTags",
    "DeleteLaunchTemplate",
    "DescribeInstanceStatus",
    "DescribeInstances",
    "DescribeLaunchTemplates",
    "RebootInstances",
    "RunInstances",
    "StartInstances",
    "StopInstances",
    "TerminateInstances",
];

/// A quota of the account for instances of the Standard families (A, C, D, H, I, M, R, T and Z) for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quota {
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// The number of vCPUs.
    pub vcpus: u64,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// Running pods, chosen at random, for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomePods {
    /// The number of pods.
    pub count: u32,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// Pods that the kube-scheduler places nowhere for a time, for a reason that no object states.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefusePods {
    /// The key and the value of their label, as `KEY=VALUE`.
    pub label: String,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// Slow detachment of volumes, for a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlowDetachments {
    /// How long a volume stays attached after its last pod.
    #[serde(deserialize_with = "durations::one")]
    pub take: SignedDuration,
    /// The duration.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// A change of every price of a capacity type.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangePrices {
    /// `spot` or `on-demand`.
    pub capacity_type: String,
    /// The fraction by which each price may increase or decrease at random, from 0 to below 1.
    pub share: f64,
}

/// Reserved Instances, of a zone or of the region. All is paid at the purchase.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuyReservedInstances {
    /// The instance type.
    pub instance_type: String,
    /// Their number.
    pub count: u32,
    /// The zone of zonal ones.
    #[serde(default)]
    pub zone: Option<String>,
    /// The term.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// A Savings Plan: of an instance family, or for any instance.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuySavingsPlan {
    /// The commitment.
    pub dollars_per_hour: f64,
    /// The fraction by which its rates are below the on-demand prices of the purchase.
    pub discount: f64,
    /// The instance family of an EC2 Instance Savings Plan.
    #[serde(default)]
    pub family: Option<String>,
    /// The term.
    #[serde(rename = "for", deserialize_with = "durations::one")]
    pub lasts: SignedDuration,
}

/// The fault of the next machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BadMachines {
    /// `neverStarts`, `neverJoins` or `failsToStart`.
    pub fault: String,
    /// The number of machines.
    pub count: u32,
}
