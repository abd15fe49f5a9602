//! Instances against the claims and the limits that they are charged to.

use super::Oracle;
use crate::Driver;
use crate::invariants::nodes::Nodes;
use crate::invariants::{CLUSTER_LIMITS, LIMITS, NO_ORPHANS, ONE_INSTANCE};
use crate::scenarios::other_objects::is_instance_of_other;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::{Instance, TypeFacts};
use nodeless_fake_kubernetes::resource::NAMESPACES;
use nodeless_model::{NodeClaim, Phase, labels};
use serde_json::Value;
use std::collections::BTreeMap;

/// How long an instance may be without a claim.
const UNOWNED: SignedDuration = SignedDuration::from_mins(10);

/// The minimum fraction of a type's memory that counts against a limit: EC2 and the system use about 7.5%, and simulated nodes
/// report up to 1.5% less than that.
const MIN_MEMORY_SHARE: f64 = 0.925 * 0.985;

/// The resources of the running instances of a NodePool.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    cpus: f64,
    /// Bytes.
    memory: f64,
    gpus: f64,
    nodes: f64,
    dollars: f64,
}

impl Running {
    #[expect(clippy::cast_precision_loss, reason = "numbers of CPUs, GPUs and MiB are small")]
    fn add(&mut self, kind: &TypeFacts) {
        self.cpus += kind.vcpus() as f64;
        self.memory += kind.memory_mib() as f64 * f64::from(1 << 20) * MIN_MEMORY_SHARE;
        let gpus = kind.description.pointer("/GpuInfo/Gpus").and_then(Value::as_array);
        let nvidia = gpus.into_iter().flatten().filter(|gpu| gpu["Manufacturer"] == "NVIDIA");
        self.gpus += nvidia.filter_map(|gpu| gpu["Count"].as_f64()).sum::<f64>();
    }
}

impl Oracle {
    /// Checks instances against the claims that have them, and the limits that they are charged to.
    pub(super) fn check_instances(&mut self, driver: &Driver, claims: &[NodeClaim], now: Timestamp) {
        let owners = self.owners(claims, now);
        let instances = driver.world().ec2().instances();
        self.check_launch_groups(&instances, claims, now);
        let facts = driver.world().ec2().facts();
        let nodes = Nodes::read(driver);
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        let mut unowned = BTreeMap::new();
        for instance in instances.iter().filter(|instance| !is_instance_of_other(instance)) {
            self.launched.insert(instance.id.clone());
            let pool = instance.tags.get(labels::NODE_POOL);
            // A user may have removed the tags of an instance that was recorded on a claim.
            if !instance.state.is_alive() || (pool.is_none() && !self.machines.contains_key(&instance.id)) {
                continue;
            }
            let owner = owners.get(instance.id.as_str());
            let leaves = owner.is_some_and(|claim| leaves_involuntarily(claim));
            if leaves {
                self.forced.insert(instance.id.clone());
            }
            let is_exempt = leaves || (self.forced.contains(&instance.id) && nodes.are_ending(&instance.id));
            let owner_pool = owner.and_then(|claim| claim.node_pool.as_ref());
            // No limits apply to a node without a NodePool.
            let name = pool.or(owner_pool).filter(|name| !name.is_empty());
            if let Some(name) = name.filter(|_| !is_exempt) {
                let entry = running.entry(name.clone()).or_default();
                facts.types.get(&instance.offering.instance_type).into_iter().for_each(|kind| entry.add(kind));
                entry.nodes += 1.0;
                entry.dollars += if self.checks_dollars { instance.price } else { 0.0 };
            }
            if owner.is_none() {
                unowned.insert(instance.id.clone(), self.unowned_since(driver, instance, now));
            }
        }
        self.unowned = unowned;
        self.check_limits(&running, now);
        self.check_cluster_limits(driver, &running, now);
    }

    /// The claim of each instance. A claim never has another instance than its first one, and no instance has two claims.
    fn owners<'c>(&mut self, claims: &'c [NodeClaim], now: Timestamp) -> BTreeMap<&'c str, &'c NodeClaim> {
        let mut owners: BTreeMap<&str, &NodeClaim> = BTreeMap::new();
        for claim in claims {
            let Some(instance) = &claim.status.instance else { continue };
            if let Some(other) = owners.insert(&instance.id, claim) {
                let detail = format!("claims {} and {} both have instance {}", other.name, claim.name, instance.id);
                self.violated(now, ONE_INSTANCE, [detail]);
            }
            self.machines.insert(instance.id.clone(), claim.name.clone());
            let known = self.instances.entry(claim.uid.clone()).or_insert_with(|| instance.id.clone());
            if *known != instance.id {
                let detail = format!("claim {} had instance {known} and now has {}", claim.name, instance.id);
                self.violated(now, ONE_INSTANCE, [detail]);
            }
        }
        owners
    }

    /// Since when an instance is without a claim, as far as it can be terminated.
    fn unowned_since(&mut self, driver: &Driver, instance: &Instance, now: Timestamp) -> Timestamp {
        // EC2 is not called for a zone that is shifted away from, and does nothing that it does not authorize.
        let denied = |api: &&str| driver.world().ec2().denies(api);
        let waits = driver.world().is_shifted(&instance.offering.zone)
            || ["DescribeInstances", "TerminateInstances"].iter().any(denied);
        let since = self.unowned.get(&instance.id).copied().filter(|_| !waits).unwrap_or(now);
        if now.duration_since(since) > UNOWNED {
            self.violated(now, NO_ORPHANS, [format!("instance {} has no claim since {since}", instance.id)]);
        }
        since
    }

    fn check_launch_groups(&mut self, instances: &[Instance], claims: &[NodeClaim], now: Timestamp) {
        let mut groups: BTreeMap<&str, u32> = BTreeMap::new();
        for group in instances.iter().filter_map(|instance| instance.tags.get(labels::LAUNCH_GROUP_TAG)) {
            *groups.entry(group).or_default() += 1;
        }
        for group in claims.iter().filter_map(|claim| claim.spec.launch_group.as_ref()) {
            let launched = groups.get(group.id.as_str()).copied().unwrap_or(0);
            if launched > group.size {
                let detail = format!("{launched} instances were launched for group {} of {}", group.id, group.size);
                self.violated(now, ONE_INSTANCE, [detail]);
            }
        }
    }

    /// Checks the instances of each NodePool, except for those terminated forcefully, against its limits of cpu, memory, GPUs, nodes and
    /// dollars per hour.
    fn check_limits(&mut self, running: &BTreeMap<String, Running>, now: Timestamp) {
        let mut passed = Vec::new();
        for (pool, running) in running {
            let Some(object) = self.pools.get(pool) else { continue };
            let limits = &object["spec"]["limits"];
            let annotated = &object["metadata"]["annotations"]["nodeless.sh/dollars-per-hour"];
            let number = |value: &Value| match value {
                Value::String(text) => text.parse::<f64>().ok().or_else(|| bytes(text)),
                other => other.as_f64(),
            };
            for (what, used, limit) in [
                ("CPUs", running.cpus, &limits["cpu"]),
                ("bytes of memory", running.memory, &limits["memory"]),
                ("GPUs", running.gpus, &limits["nvidia.com/gpu"]),
                ("nodes", running.nodes, &limits["nodes"]),
                ("dollars per hour", running.dollars, &limits["nodeless.sh/dollars-per-hour"]),
                ("dollars per hour", running.dollars, annotated),
            ] {
                // Prices are added in another order than in the table.
                if let Some(limit) = number(limit).filter(|limit| used > limit + 1e-6) {
                    passed.push(format!("NodePool {pool} has {used} {what}, and its limit is {limit}"));
                }
            }
        }
        self.violated(now, LIMITS, passed);
    }

    /// Checks the instances of all NodePools together against the annotations of the Namespace `kube-system`.
    fn check_cluster_limits(&mut self, driver: &Driver, running: &BTreeMap<String, Running>, now: Timestamp) {
        let Ok(system) = driver.world().api().get(&NAMESPACES, "", "kube-system") else { return };
        let sum = |of: fn(&Running) -> f64| running.values().map(of).sum::<f64>();
        for (what, used, annotation) in [
            ("CPUs", sum(|one| one.cpus), "nodeless.sh/max-cpu"),
            ("nodes", sum(|one| one.nodes), "nodeless.sh/max-nodes"),
            ("dollars per hour", sum(|one| one.dollars), "nodeless.sh/max-dollars-per-hour"),
        ] {
            let limit =
                system["metadata"]["annotations"][annotation].as_str().and_then(|text| text.parse::<f64>().ok());
            if let Some(limit) = limit.filter(|limit| used > limit + 1e-6) {
                let detail = format!("all NodePools have {used} {what}, and the cluster's limit is {limit}");
                self.violated(now, CLUSTER_LIMITS, [detail]);
            }
        }
    }
}

/// A quantity with a binary suffix, such as `160Gi`.
fn bytes(text: &str) -> Option<f64> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];
    let (number, power) = units.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))?;
    Some(number.parse::<f64>().ok()? * 2_f64.powi(power))
}

/// Whether a node is disrupted involuntarily, so that its NodePool may have another node from then on.
fn leaves_involuntarily(claim: &NodeClaim) -> bool {
    let reason = claim.status.termination.as_ref().filter(|_| claim.status.node_name.is_some()).map(|end| end.reason);
    let taken = ["expired", "interrupted", "unhealthy", "deleted", "garbage_collected"];
    claim.phase >= Phase::Draining && reason.is_some_and(|reason| taken.contains(&reason.as_str()))
}
