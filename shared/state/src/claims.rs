//! Claims: the nodes that are planned, launched or terminating, each written together with its charge.

use crate::items::{attributes, read_number, read_text, read_with_dictionary, text, write_with_dictionary};
use crate::launch_groups::StoredLaunchGroup;
use crate::limits::PoolLimits;
use crate::state::{conflict, first_refused};
use crate::usage::{Amounts, first_limit_passed};
use crate::versioned::{Stored, is_version};
use crate::{State, launch_groups};
use nodeless_model::claim::Charge;
use nodeless_model::{EndedNode, NodeClaim};
use nodeless_ports::table::{
    Attributes, Change, Condition, INSTANCE_ID, Item, Key, Outcome, Partition, Query, Range, Refusal, Write,
};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::BTreeSet;

const PREFIX: &str = "nodeclaim#";

/// The record of a claim as most have it, to which the compressed records refer. They have a quarter of the size then, and all are read
/// by each plan and each sweep. It must not change while there are claims.
const DICTIONARY: &[u8] = include_bytes!("claim.dictionary");

/// The maximum number of claims that are written together: three less than the writes of a DynamoDB transaction, which also
/// writes the usage of the NodePool, the record of the launch group and the plan revision. It is also the maximum size of a
/// launch group.
pub const MAX_TOGETHER: usize = 97;

/// The number of partition keys of the claims of a cluster: DynamoDB reads at most 3,000 and writes at most 1,000 units a second
/// under one key. A claim is found by its name, so this number must not change while there are claims.
pub const PARTITIONS: u32 = 8;

/// The partition key of a claim, below [`PARTITIONS`].
#[must_use]
pub fn partition_of(name: &str) -> u32 {
    // FNV-1a: it is stable and needs no dependency.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % PARTITIONS
}

/// The result of writing new claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The claims are written, with version 1, and charged.
    Written,
    /// Claims with these names and uids existed: an earlier attempt had succeeded.
    AlreadyThere,
    /// The NodePool's limit would be exceeded; nothing was written.
    LimitReached {
        /// The resource, or `dollars-per-hour`.
        resource: String,
    },
}

/// The NodePool of claims to be written together; `None` if they have none, and therefore no charge.
///
/// # Errors
/// `Invalid` for no claims, more than [`MAX_TOGETHER`], or claims of several NodePools.
pub fn node_pool_of<'a>(
    operation: &str,
    claims: impl ExactSizeIterator<Item = &'a NodeClaim>,
) -> Result<Option<&'a str>, PortError> {
    let invalid = |message: String| PortError::new(ErrorKind::Invalid, operation, message);
    let (count, mut rest) = (claims.len(), claims);
    let Some(first) = rest.next().filter(|_| count <= MAX_TOGETHER) else {
        return Err(invalid(format!("{count} claims cannot be written together, but 1 to {MAX_TOGETHER}")));
    };
    match rest.find(|claim| claim.node_pool != first.node_pool) {
        Some(other) => {
            let [one, other] = [first, other].map(|claim| match &claim.node_pool {
                Some(name) => format!("NodePool {name}"),
                None => "no NodePool".to_owned(),
            });
            Err(invalid(format!("claims of {one} and {other} cannot be written together")))
        }
        None => Ok(first.node_pool.as_deref()),
    }
}

/// A claim to write, with its new charge if it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedClaim {
    /// The claim, with the version and the charge that were read.
    pub claim: NodeClaim,
    /// The charge that replaces that of the claim.
    pub charge: Option<Charge>,
}

/// The writes of new claims, and what they add to the usage of their NodePool.
pub(crate) struct Creation {
    pub(crate) writes: Vec<Write>,
    pub(crate) amounts: Amounts,
}

impl Creation {
    /// The result of writing new claims, given the refusal of each write.
    pub(crate) fn refused(
        &self,
        operation: &str,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
        mut refusals: Vec<Option<Refusal>>,
    ) -> Result<Created, PortError> {
        let node_pool = claims.first().and_then(|claim| claim.node_pool.as_deref());
        let of_charge = node_pool.and_then(|_| refusals.pop().flatten());
        if let Some((claim, _)) = claims.iter().zip(&refusals).find(|(_, refusal)| refusal.is_some()) {
            let same = |(claim, refusal): (&NodeClaim, &Option<Refusal>)| {
                let item = refusal.as_ref().and_then(|refusal| refusal.item.as_ref());
                item.is_some_and(|item| read_text(item, "uid").is_ok_and(|uid| uid == claim.uid))
            };
            let all_ours = claims.iter().zip(&refusals).all(same);
            return if all_ours { Ok(Created::AlreadyThere) } else { Err(conflict(operation, &claim.name)) };
        }
        let usage = of_charge.and_then(|refusal| refusal.item);
        let resource = limits.and_then(|limits| first_limit_passed(usage.as_ref(), &self.amounts, limits));
        let name = node_pool.or_else(|| claims.first().map(|claim| claim.name.as_str())).unwrap_or_default();
        resource.map(|resource| Created::LimitReached { resource }).ok_or_else(|| conflict(operation, name))
    }
}

impl State {
    /// All claims, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or a record cannot be decoded.
    pub async fn list(&self) -> Result<Vec<NodeClaim>, PortError> {
        sorted(&self.table.query("claims list", &lists(true)).await?)
    }

    /// All claims, in the order of their names. The last writes may be missing: nothing that must not happen twice, and nothing that
    /// follows from a missing claim, may depend on it. It costs half as much as [`list`](Self::list).
    ///
    /// # Errors
    /// The same.
    pub async fn list_eventually(&self) -> Result<Vec<NodeClaim>, PortError> {
        sorted(&self.table.query("claims list", &lists(false)).await?)
    }

    /// Reads a claim consistently.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<NodeClaim>, PortError> {
        self.table.get("claims get", &claim_key(name)).await?.as_ref().map(decode_claim).transpose()
    }

    /// The existing claims with these names, in the order of their names, read consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or one record cannot be decoded.
    pub async fn get_all(&self, names: &[String]) -> Result<Vec<NodeClaim>, PortError> {
        let keys: BTreeSet<Key> = names.iter().map(|name| claim_key(name)).collect();
        sorted(&self.table.get_all("claims get all", &keys).await?)
    }

    /// The claim of an instance, by an eventually consistent index: a claim that was just written may not be found. Nothing that
    /// must not happen twice may depend on it.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn find_by_instance(&self, instance_id: &str) -> Result<Option<NodeClaim>, PortError> {
        const OPERATION: &str = "claims find by instance";
        // The index need not contain the whole record, so the record is read by its key.
        let keys = self.table.find_by_instance(OPERATION, instance_id).await?;
        let Some(key) = keys.first() else { return Ok(None) };
        let claim = self.table.get(OPERATION, key).await?.as_ref().map(decode_claim).transpose()?;
        Ok(claim.filter(|claim| claim.status.instance.as_ref().is_some_and(|instance| instance.id == instance_id)))
    }

    /// Writes up to [`MAX_TOGETHER`] new claims of one NodePool and charges them, in one transaction that fails if a limit would
    /// be exceeded. A launch group of several gets its record in the same transaction. If `limits` is `None`, the claims are
    /// charged regardless, because adoption must not lose a node that exists.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when another claim has one of the names; `Invalid` for no claims, too many, or
    /// claims of several NodePools; and when the table cannot be written. Either nothing or the same claims were written then.
    pub async fn create_together(
        &self,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
    ) -> Result<Created, PortError> {
        const OPERATION: &str = "claims create";
        let creation = match self.creation(OPERATION, claims, limits)? {
            Ok(creation) => creation,
            Err(resource) => return Ok(Created::LimitReached { resource }),
        };
        match self.table.write(OPERATION, creation.writes.clone()).await? {
            Outcome::Written => Ok(Created::Written),
            Outcome::Refused(refusals) => creation.refused(OPERATION, claims, limits, refusals),
        }
    }

    /// [`create_together`](Self::create_together) for one claim.
    ///
    /// # Errors
    /// The same.
    pub async fn create(&self, claim: &NodeClaim, limits: Option<&PoolLimits>) -> Result<Created, PortError> {
        self.create_together(std::slice::from_ref(claim), limits).await
    }

    /// Writes a claim if the table still holds the version that was read, and returns the new version. `charge` replaces the
    /// charge of the claim and changes the usage of the NodePool accordingly.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when another process wrote first.
    pub async fn update(&self, claim: &NodeClaim, charge: Option<&Charge>) -> Result<u64, PortError> {
        const OPERATION: &str = "claims update";
        // Without a new charge this is a single write, which costs half as much as a transaction.
        match self.table.write(OPERATION, replacements(OPERATION, &[(claim, charge)])?).await? {
            Outcome::Written => Ok(claim.version + 1),
            Outcome::Refused(_) => Err(conflict(OPERATION, &claim.name)),
        }
    }

    /// Writes up to [`MAX_TOGETHER`] claims of one NodePool in one transaction, each as [`update`](Self::update) does. The
    /// version of each is incremented.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when another process wrote one of them first; `Invalid` for no claims, too many,
    /// or claims of several NodePools. Nothing was written then.
    pub async fn update_together(&self, changes: &[ChangedClaim]) -> Result<(), PortError> {
        const OPERATION: &str = "claims update together";
        let pairs: Vec<_> = changes.iter().map(|change| (&change.claim, change.charge.as_ref())).collect();
        match self.table.write(OPERATION, replacements(OPERATION, &pairs)?).await? {
            Outcome::Written => Ok(()),
            Outcome::Refused(refusals) => {
                let names = changes.iter().map(|change| change.claim.name.as_str());
                Err(conflict(OPERATION, first_refused(names, &refusals)))
            }
        }
    }

    /// Deletes a claim that has ended, if the table still holds its version, and releases its charge. A missing claim counts as
    /// success. The same transaction writes what is left of its instance, if it had one: see
    /// [`ended_nodes`](Self::ended_nodes).
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when another process wrote first.
    pub async fn delete_ended(&self, claim: &NodeClaim, ended: Option<&EndedNode>) -> Result<(), PortError> {
        const OPERATION: &str = "claims delete";
        let refund = Amounts::default().minus(&Amounts::new(&claim.spec.charge));
        let mut writes = vec![Write::new(claim_key(&claim.name), Change::Delete).on(is_version(claim.version))];
        writes.extend(claim.node_pool.as_deref().map(|node_pool| refund.charge(node_pool, None)));
        if let Some(ended) = ended {
            writes.push(crate::costs::ended_write(OPERATION, ended)?);
        }
        match self.table.write(OPERATION, writes).await? {
            Outcome::Written => Ok(()),
            Outcome::Refused(refusals) => match refusals.into_iter().next().flatten() {
                Some(Refusal { item: Some(_) }) => Err(conflict(OPERATION, &claim.name)),
                _ => Ok(()),
            },
        }
    }

    /// [`delete_ended`](Self::delete_ended) without an instance.
    ///
    /// # Errors
    /// The same.
    pub async fn delete(&self, claim: &NodeClaim) -> Result<(), PortError> {
        self.delete_ended(claim, None).await
    }

    /// The writes of new claims: one for each, and last the charge to their NodePool, if they have one. The error is the limit that the claims
    /// alone exceed.
    pub(crate) fn creation(
        &self,
        operation: &str,
        claims: &[NodeClaim],
        limits: Option<&PoolLimits>,
    ) -> Result<Result<Creation, String>, PortError> {
        let node_pool = node_pool_of(operation, claims.iter())?;
        let mut amounts = Amounts::default();
        for claim in claims {
            amounts = amounts.plus(&Amounts::new(&claim.spec.charge));
        }
        if let Some(resource) = limits.and_then(|limits| first_limit_passed(None, &amounts, limits)) {
            return Ok(Err(resource));
        }
        let mut writes = Vec::with_capacity(claims.len() + 3);
        for claim in claims {
            writes.push(claim_write(operation, claim, Stored::Nothing)?);
        }
        if let Some(group) = StoredLaunchGroup::new(claims) {
            // Without a condition: a repeated creation of the same claims then fails on the claims themselves, whose uids show
            // that they are the same.
            let created = claims.iter().map(|claim| claim.created).max().unwrap_or_default();
            let record = launch_groups::record(operation, &group, created)?;
            writes.push(Stored::Nothing.replace(launch_groups::key(&group.id), record).on(Condition::NONE));
        }
        writes.extend(node_pool.map(|node_pool| amounts.charge(node_pool, limits)));
        Ok(Ok(Creation { writes, amounts }))
    }
}

/// The writes of claims of one NodePool, each replacing the version that was read, with its new charge if it changes.
pub(crate) fn replacements(
    operation: &str,
    changes: &[(&NodeClaim, Option<&Charge>)],
) -> Result<Vec<Write>, PortError> {
    let node_pool = node_pool_of(operation, changes.iter().map(|(claim, _)| *claim))?;
    let mut difference = Amounts::default();
    let mut writes = Vec::with_capacity(changes.len() + 2);
    for (claim, charge) in changes {
        let mut next = (*claim).clone();
        if let Some(charge) = charge {
            difference = difference.plus(&Amounts::new(charge)).minus(&Amounts::new(&claim.spec.charge));
            next.spec.charge = (*charge).clone();
        }
        writes.push(claim_write(operation, &next, Stored::Version(claim.version))?);
    }
    if !difference.is_zero() {
        writes.extend(node_pool.map(|node_pool| difference.charge(node_pool, None)));
    }
    Ok(writes)
}

fn claim_write(operation: &str, claim: &NodeClaim, stored: Stored) -> Result<Write, PortError> {
    Ok(stored.replace(claim_key(&claim.name), claim_attributes(operation, claim, stored)?))
}

/// The attributes that replace the stored ones, without the version.
fn claim_attributes(operation: &str, claim: &NodeClaim, stored: Stored) -> Result<Attributes, PortError> {
    let record = NodeClaim { version: stored.next(), ..claim.clone() };
    let mut item = attributes([
        ("record", write_with_dictionary(operation, &record, DICTIONARY)?),
        // For users who read the table.
        ("phase", text(claim.phase.as_str())),
        ("uid", text(&claim.uid)),
    ]);
    item.extend(claim.node_pool.as_ref().map(|node_pool| ("nodePool".to_owned(), text(node_pool))));
    if let Some(instance) = &claim.status.instance {
        item.insert(INSTANCE_ID.to_owned(), text(&instance.id));
    }
    Ok(item)
}

/// The queries of all claims.
fn lists(consistent: bool) -> Vec<Query> {
    let of = |partition| Query {
        partition: Partition::Claims(partition),
        keys: Range::Prefix(PREFIX.to_owned()),
        last: None,
        consistent,
    };
    (0..PARTITIONS).map(of).collect()
}

fn claim_key(name: &str) -> Key {
    Key { partition: Partition::Claims(partition_of(name)), sort: format!("{PREFIX}{name}") }
}

fn sorted(items: &[Item]) -> Result<Vec<NodeClaim>, PortError> {
    let mut claims: Vec<NodeClaim> = items.iter().map(decode_claim).collect::<Result<_, _>>()?;
    claims.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(claims)
}

/// The claim in an item of a claim.
///
/// # Errors
/// When the item cannot be decoded.
pub fn decode_claim(item: &Item) -> Result<NodeClaim, PortError> {
    let mut claim: NodeClaim = read_with_dictionary(item, "record", DICTIONARY)?;
    claim.version = read_number(item, "version")?;
    Ok(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodeless_model::claim::{LaunchGroup, LaunchedInstance};
    use nodeless_model::{
        CapacityType, ConditionStatus, NodeClaimSpec, NodeClaimStatus, Phase, Quantity, Requirement, Requirements,
        ResourceList, StringMap, labels,
    };

    fn id(prefix: &str, number: u32) -> String {
        format!("{prefix}-0{:016x}", u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Records that were written with another dictionary cannot be read.
    #[test]
    fn the_dictionary_of_the_records_is_unchanged() {
        let mut checksum = flate2::Crc::new();
        checksum.update(DICTIONARY);
        assert_eq!((DICTIONARY.len(), checksum.sum()), (5679, 0x9cadbeb3));
    }

    #[test]
    fn a_claim_of_each_phase_is_read_as_it_was_written() {
        for phase in nodeless_model::test_support::PHASES {
            let claim = NodeClaim { phase, version: 8, ..large(1) };
            let write = claim_write("test", &claim, Stored::Version(7)).unwrap();
            let Change::Put(attributes) = write.change else { panic!("{:?}", write.change) };
            assert_eq!(attributes["phase"], text(phase.as_str()));
            assert_eq!(decode_claim(&Item { key: write.key, attributes }).unwrap(), claim);
        }
    }

    fn launched(number: u32, at: Timestamp) -> LaunchedInstance {
        LaunchedInstance {
            id: id("i", number),
            instance_type: "m6i.xlarge".into(),
            zone: "eu-central-1a".into(),
            capacity_type: CapacityType::Spot,
            price: 0.08,
            image_id: id("ami", 1),
            private_dns_name: Some(format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 250, number % 250)),
            reservation_id: None,
            subnet_id: Some(id("subnet", 1)),
            security_group_ids: vec![id("sg", 1), id("sg", 2)],
            launched: at,
            certificate_authority: None,
        }
    }

    /// A large claim: 30 pods, all labels and conditions.
    fn large(number: u32) -> NodeClaim {
        let resources = || {
            let names = ["cpu", "memory", "ephemeral-storage", "pods", "hugepages-2Mi", "vpc.amazonaws.com/pod-eni"];
            ResourceList::from(names.map(|name| (name, Quantity::from_milli(1 + 3_920_117 * name.len() as i64))))
        };
        // A claim that is initialized has only the launched one.
        let types = vec!["m6i.xlarge".to_owned()];
        let mut requirements = Requirements::default();
        requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(types.clone()));
        requirements.add(labels::ZONE, Requirement::one_of(["eu-central-1a", "eu-central-1b", "eu-central-1c"]));
        requirements.add(labels::CAPACITY_TYPE, Requirement::one_of(["spot", "on-demand"]));
        let at = Timestamp::from_second(1_800_000_000 + i64::from(number)).unwrap();
        let labelled = |keys: &[&str]| -> StringMap {
            keys.iter().map(|key| ((*key).to_owned(), format!("value-of-{key}"))).collect()
        };
        let mut claim = NodeClaim {
            name: format!("general-purpose-{number:05}"),
            uid: format!("{:08x}-5717-4562-b3fc-2c963f66afa6", number.wrapping_mul(0x9e37_79b9)),
            node_pool: Some("general-purpose".into()),
            node_class: "default".into(),
            created: at,
            version: 7,
            spec: NodeClaimSpec {
                requirements,
                instance_types: types,
                labels: labelled(&["team", "environment", labels::NODE_POOL, labels::EC2_NODE_CLASS]),
                annotations: labelled(&[labels::NODE_POOL_HASH, labels::EC2_NODE_CLASS_HASH]),
                requests: resources(),
                launch_group: Some(LaunchGroup {
                    id: id("group", number / 97),
                    index: number % 97,
                    size: 97,
                    all_or_none: false,
                }),
                nominated_pods: (0..30)
                    .map(|pod| format!("production/checkout-{:05x}-{:05x}", number * 31, pod * 40_503))
                    .collect(),
                ..NodeClaimSpec::default()
            },
            phase: Phase::Initialized,
            status: NodeClaimStatus {
                instance: Some(launched(number, at)),
                labels: labelled(&[
                    labels::INSTANCE_TYPE,
                    labels::ZONE,
                    labels::CAPACITY_TYPE,
                    "karpenter.k8s.aws/instance-category",
                    "karpenter.k8s.aws/instance-cpu",
                    "karpenter.k8s.aws/instance-family",
                    "karpenter.k8s.aws/instance-generation",
                    "karpenter.k8s.aws/instance-hypervisor",
                    "karpenter.k8s.aws/instance-memory",
                    "karpenter.k8s.aws/instance-network-bandwidth",
                    "karpenter.k8s.aws/instance-size",
                    "topology.k8s.aws/zone-id",
                ]),
                capacity: resources(),
                allocatable: resources(),
                node_name: Some(format!("ip-10-0-{}-{}.eu-central-1.compute.internal", number / 250, number % 250)),
                ..NodeClaimStatus::default()
            },
        };
        for kind in ["Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound"] {
            claim.set_condition(kind, ConditionStatus::True, kind, "", at);
        }
        claim
    }

    /// `docs/benchmarks/README.md` uses these numbers.
    #[test]
    fn five_thousand_large_claims_are_read_within_what_their_partition_keys_allow() {
        let bytes = |write: Write| match write.change {
            Change::Put(attributes) => Item { key: write.key, attributes }.bytes() + "a-cluster-with-a-name#0".len(),
            other => panic!("{other:?}"),
        };
        // A fifth of them suffices and takes less time.
        let claims: Vec<NodeClaim> = (0..1000).map(|number| large(number * 5)).collect();
        let mut shards = vec![0_usize; PARTITIONS as usize];
        for claim in &claims {
            shards[partition_of(&claim.name) as usize] +=
                bytes(claim_write("test", claim, Stored::Version(7)).unwrap()) * 5;
        }
        let total: usize = shards.iter().sum();
        let units = |bytes: usize| bytes.div_ceil(4096);
        let most = shards.iter().copied().map(units).max().unwrap();
        let each = total / 5000;
        println!("{each} bytes a claim, {} units a list, {most} of one key", units(total));
        assert!(each < 1024, "{each} bytes a claim");
        // Fifteen plans and sweeps in one second.
        assert!(most * 15 < 3000, "{shards:?}");
        let members: Vec<NodeClaim> = (0..97).map(large).collect();
        let group = StoredLaunchGroup {
            owners: members
                .iter()
                .map(|it| (it.status.instance.as_ref().unwrap().id.clone(), it.name.clone()))
                .collect(),
            ..StoredLaunchGroup::new(&members).unwrap()
        };
        let group = {
            let record = launch_groups::record("test", &group, Timestamp::UNIX_EPOCH).unwrap();
            bytes(Stored::Nothing.replace(launch_groups::key(&group.id), record))
        };
        println!("{group} bytes a launch group of 97");
        assert!(group < 4096, "{group} bytes a launch group");
    }
}
