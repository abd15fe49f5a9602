//! The steps of the demo. Each step does one thing, or waits for one thing that nodeless does, and prints what happened.

use super::objects::{condition, is_true, length, name, text};
use super::progress::{Progress, Took};
use crate::local::{LocalWorld, counted, spoken};
use jiff::Timestamp;
use nodeless_fake_aws::{Instance, InstanceState};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{CreateOptions, PatchOptions, PatchType, Status};
use nodeless_ports::decisions::Decision;
use nodeless_ports::{Decisions, PortError};
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODE_POOL: &str = include_str!("node_pool.yaml");
const INFLATE: &str = include_str!("inflate.yaml");
/// How many pods `inflate.yaml` asks for.
const REPLICAS: usize = 5;
/// How long each step may take on the world's clock. Karpenter gives a machine this long to join.
const LIMIT: Duration = Duration::from_mins(15);
/// How often the world is looked at, on the wall clock.
const POLL: Duration = Duration::from_millis(5);
/// How many instance types are named.
const NAMED: usize = 3;

/// Why the demo ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// Something did not happen.
    #[error(
        "{what}: not within {} on the world's clock; what nodeless did last is above. This should not happen: please report it",
        spoken(LIMIT)
    )]
    Late {
        /// What did not happen.
        what: String,
    },
    /// The API server of the world refused something.
    #[error("the demo's own manifests are refused: {0}; this is a bug in nodeless")]
    Refused(#[from] Status),
    /// A manifest of the demo is no YAML.
    #[error("the demo's own manifests cannot be read: {0}; this is a bug in nodeless")]
    Manifest(String),
    /// The claims could not be read.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// The demo in one simulated cluster.
pub(crate) struct Demo<'a> {
    world: &'a LocalWorld,
    progress: &'a Progress,
    /// When the present step began, by both clocks.
    began: (Timestamp, Instant),
}

impl<'a> Demo<'a> {
    pub(crate) fn new(world: &'a LocalWorld, progress: &'a Progress) -> Self {
        Self { world, progress, began: (world.clock.time(), Instant::now()) }
    }

    /// Runs all steps.
    ///
    /// # Errors
    /// When a step does not happen in time.
    pub(crate) async fn run(&mut self) -> Result<(), DemoError> {
        let start = self.now();
        self.apply_manifests().await?;
        self.deploy().await?;
        let deployed = self.now();
        self.see_claims().await?;
        self.see_instances().await?;
        self.see_nodes().await?;
        self.see_pods_run().await?;
        let running = self.now();
        self.scale_down().await?;
        let scaled_down = self.now();
        self.see_nodes_leave().await?;
        self.see_drains().await?;
        self.see_instances_go().await?;
        let gone = self.now();
        self.summarise(start, (deployed, running), (scaled_down, gone));
        Ok(())
    }

    async fn apply_manifests(&mut self) -> Result<(), DemoError> {
        for object in manifests(&NODE_POOL.replace("CLUSTER", &self.world.options.cluster_name))? {
            let resource = if object["kind"] == "NodePool" { NODE_POOLS } else { NODE_CLASSES };
            self.world.api.create(&resource, object, &CreateOptions::default())?;
        }
        let world = self.world;
        let what = "NodePool and EC2NodeClass are applied and ready";
        let class = self
            .wait("nodeless to resolve the EC2NodeClass and judge the NodePool", what, || {
                let ready = |objects: Vec<Arc<Value>>| objects.into_iter().find(|object| is_true(object, "Ready"));
                ready(world.objects(&NODE_POOLS)).and_then(|_| ready(world.objects(&NODE_CLASSES)))
            })
            .await?;
        let resolved = [("AMI", "amis"), ("subnet", "subnets"), ("security group", "securityGroups")]
            .map(|(noun, list)| counted(length(&class, &format!("/status/{list}")), noun));
        self.done(what, &[format!("resolved to {}", resolved.join(", "))]);
        Ok(())
    }

    async fn deploy(&mut self) -> Result<(), DemoError> {
        for object in manifests(INFLATE)? {
            self.world.api.create(&DEPLOYMENTS, object, &CreateOptions::default())?;
        }
        let world = self.world;
        let what = format!("Deployment inflate: {REPLICAS} pods of 1 CPU and 1 GiB wait");
        let why = self
            .wait("the scheduler to look at the pods", &what, || {
                let pods = world.pods();
                let waiting = pods.iter().filter_map(|pod| condition(pod, "PodScheduled"));
                let mut waiting = waiting.filter(|condition| condition["reason"] == "Unschedulable");
                let why = waiting.clone().next().map(|condition| text(condition, "/message").to_owned());
                (waiting.by_ref().count() == REPLICAS).then_some(why).flatten()
            })
            .await?;
        self.done(&what, &[format!("kube-scheduler: {why}")]);
        Ok(())
    }

    async fn see_claims(&mut self) -> Result<(), DemoError> {
        let what = "NodeClaims are made for the pods";
        self.progress.waiting_for("nodeless to plan: it waits a second for further pods");
        let deadline = self.deadline();
        let decision = loop {
            let decisions = self.world.claims.decisions(100).await?;
            let provisioned = decisions.into_iter().find(|it| it.kind == "provisioning" && !it.subjects.is_empty());
            let mirrored = self.world.objects(&NODE_CLAIMS).len();
            match provisioned {
                Some(decision) if mirrored >= decision.subjects.len() => break decision,
                _ if self.now() > deadline => return Err(DemoError::Late { what: what.to_owned() }),
                _ => tokio::time::sleep(POLL).await,
            }
        };
        let made = decision.subjects.as_slice();
        let title = match made {
            [only] => format!("NodeClaim {only} is made"),
            many => format!("{} are made", counted(many.len(), "NodeClaim")),
        };
        let mut details = if made.len() > 1 { vec![made.join(", ")] } else { Vec::new() };
        details.extend(considered(&decision, self.world.instance_types));
        self.done(&title, &details);
        Ok(())
    }

    async fn see_instances(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "Instances are launched";
        self.wait("EC2 to answer CreateFleet", what, || {
            let claims = world.objects(&NODE_CLAIMS);
            let launched =
                !claims.is_empty() && claims.iter().all(|claim| !text(claim, "/status/providerID").is_empty());
            launched.then_some(())
        })
        .await?;
        let instances = self.alive();
        let title = match instances.as_slice() {
            [only] => format!("Instance {} is launched", only.id),
            many => format!("{} are launched", counted(many.len(), "instance")),
        };
        let calls = world.ec2.calls().into_iter().filter(|call| call.api == "CreateFleet");
        let offered: Vec<usize> = calls.map(|call| overrides(&call.parameters)).collect();
        let mut details = grouped(instances.iter().map(describe));
        details.push(format!(
            "EC2 could choose from {} in {}",
            counted(offered.iter().sum(), "offering"),
            counted(offered.len(), "CreateFleet call")
        ));
        self.done(&title, &details);
        Ok(())
    }

    async fn see_nodes(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "Nodes join the cluster and are ready";
        let nodes = self
            .wait("the machines to boot and their kubelets to register", what, || {
                let (claims, nodes) = (world.objects(&NODE_CLAIMS), world.nodes());
                let all_ready = nodes.len() == claims.len()
                    && nodes.iter().all(|node| is_true(node, "Ready"))
                    && claims.iter().all(|claim| is_true(claim, "Initialized"));
                (all_ready && !nodes.is_empty()).then_some(nodes)
            })
            .await?;
        let title = match nodes.as_slice() {
            [only] => format!("Node {} has joined and is ready", name(only)),
            many => format!("{} have joined and are ready", counted(many.len(), "node")),
        };
        let details = grouped(nodes.iter().map(|node| allocatable(node)));
        self.done(&title, &details);
        Ok(())
    }

    async fn see_pods_run(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = format!("All {REPLICAS} pods run");
        self.wait("the kubelets to start the pods", &what, || {
            let running = world.pods().iter().filter(|pod| text(pod, "/status/phase") == "Running").count();
            (running == REPLICAS).then_some(())
        })
        .await?;
        self.done(&what, &[format!("the cluster costs ${:.4} an hour now", world.ec2.hourly_price())]);
        Ok(())
    }

    async fn scale_down(&mut self) -> Result<(), DemoError> {
        let (world, patch) = (self.world, json!({"spec": {"replicas": 0}}));
        let options = PatchOptions::default();
        world.api.patch(&DEPLOYMENTS, "default", "inflate", Some("scale"), PatchType::Merge, &patch, &options)?;
        let what = "Deployment inflate: scaled to 0, its pods are gone";
        self.wait("the pods to end", what, || world.pods().is_empty().then_some(())).await?;
        self.done(what, &[]);
        Ok(())
    }

    async fn see_nodes_leave(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "The empty nodes are to go";
        self.wait("consolidateAfter (30 s) and the next plan", what, || {
            let claims = world.objects(&NODE_CLAIMS);
            claims
                .iter()
                .all(|claim| !text(claim, "/metadata/deletionTimestamp").is_empty() || has_begun_to_leave(claim))
                .then_some(())
        })
        .await?;
        let decisions = world.claims.decisions(100).await?.into_iter().rev();
        self.done(what, &grouped(decisions.filter(|it| it.kind == "disruption").map(|it| it.summary)));
        Ok(())
    }

    async fn see_drains(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "They are tainted and drained";
        self.wait("the drain, which takes at least 5 s", what, || {
            let claims = world.objects(&NODE_CLAIMS);
            claims.iter().all(|claim| is_true(claim, "Drained")).then_some(())
        })
        .await?;
        self.done(what, &[]);
        Ok(())
    }

    async fn see_instances_go(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "Instances are terminated, Nodes and NodeClaims are gone";
        self.wait("EC2 to terminate the instances", what, || {
            let gone = world.ec2.instances().iter().all(|instance| instance.state == InstanceState::Terminated);
            (gone && world.nodes().is_empty() && world.objects(&NODE_CLAIMS).is_empty()).then_some(())
        })
        .await?;
        self.done(what, &[]);
        Ok(())
    }

    fn summarise(&self, start: Timestamp, up: (Timestamp, Timestamp), down: (Timestamp, Timestamp)) {
        let ec2 = &self.world.ec2;
        let calls: Vec<String> = ec2
            .call_counts()
            .into_iter()
            .filter(|(api, _)| {
                ["CreateFleet", "TerminateInstances", "DescribeInstances"].iter().any(|it| api.ends_with(it))
            })
            .map(|(api, count)| format!("{count} {}", api.rsplit(':').next().unwrap_or(&api)))
            .collect();
        let lines = [
            ("From pods that wait to pods that run", spoken(between(up.0, up.1))),
            ("From scaling to 0 to nothing left", spoken(between(down.0, down.1))),
            (
                "All of it",
                format!(
                    "{}, in {} on the wall clock",
                    spoken(between(start, self.now())),
                    spoken(self.world.pace.elapsed())
                ),
            ),
            ("Spent on EC2", format!("${:.4}, and ${:.4} an hour from now on", ec2.spent(), ec2.hourly_price())),
            ("Calls to EC2", calls.join(", ")),
        ];
        self.progress.print("");
        for (what, value) in lines {
            self.progress.print(&format!("  {what:38} {value}"));
        }
    }

    /// Looks until something is there.
    async fn wait<T>(
        &self,
        waiting_for: &str,
        what: &str,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, DemoError> {
        self.progress.waiting_for(waiting_for);
        let deadline = self.deadline();
        loop {
            if let Some(seen) = look() {
                return Ok(seen);
            }
            if self.now() > deadline {
                return Err(DemoError::Late { what: what.to_owned() });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn done(&mut self, what: &str, details: &[String]) {
        let now = (self.now(), Instant::now());
        let took = Took { world: between(self.began.0, now.0), wall: now.1.duration_since(self.began.1) };
        self.began = now;
        self.progress.done(what, took, details);
    }

    fn now(&self) -> Timestamp {
        self.world.clock.time()
    }

    fn deadline(&self) -> Timestamp {
        self.now().saturating_add(LIMIT).unwrap_or(Timestamp::MAX)
    }

    fn alive(&self) -> Vec<Instance> {
        self.world.ec2.instances().into_iter().filter(|instance| instance.state.is_alive()).collect()
    }
}

fn manifests(yaml: &str) -> Result<Vec<Value>, DemoError> {
    serde_saphyr::from_multiple(yaml).map_err(|error| DemoError::Manifest(error.to_string()))
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn has_begun_to_leave(claim: &Value) -> bool {
    ["Drained", "InstanceTerminating"].iter().any(|kind| condition(claim, kind).is_some())
}

/// What a provisioning decision considered and chose, for each node.
fn considered(decision: &Decision, all_types: usize) -> Vec<String> {
    let detail = nodeless_operations::plan::unpacked(&decision.detail).unwrap_or_default();
    let launches = detail["launches"].as_array().cloned().unwrap_or_default();
    grouped(launches.iter().map(|launch| considered_for_launch(launch, all_types)))
}

fn considered_for_launch(launch: &Value, all_types: usize) -> String {
    let types = launch["instanceTypes"].as_array().cloned().unwrap_or_default();
    let price = |of: &Value| of["pricePerHour"].as_f64().unwrap_or_default();
    let named: Vec<String> =
        types.iter().take(NAMED).map(|kind| format!("{} ${:.4}", text(kind, "/name"), price(kind))).collect();
    let offering = &launch["offering"];
    format!(
        "for {}: {} {} in {} at ${:.4} an hour\n  {} of {all_types} instance types may be launched, the cheapest: {}",
        counted(length(launch, "/pods"), "pod"),
        text(offering, "/instanceType"),
        text(offering, "/capacityType"),
        text(offering, "/zone"),
        price(offering),
        types.len(),
        named.join(", "),
    )
}

/// How many offerings a CreateFleet call let EC2 choose from.
fn overrides(parameters: &Value) -> usize {
    match parameters {
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| match member {
                Value::Array(list) if name == "Overrides" => list.len(),
                other => overrides(other),
            })
            .sum(),
        Value::Array(list) => list.iter().map(overrides).sum(),
        _ => 0,
    }
}

/// Lines with equal ones together, in the order of their first.
fn grouped(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut counted: Vec<(usize, String)> = Vec::new();
    for line in lines {
        match counted.iter_mut().find(|(_, present)| *present == line) {
            Some((count, _)) => *count += 1,
            None => counted.push((1, line)),
        }
    }
    counted.into_iter().map(|(count, line)| if count == 1 { line } else { format!("{count} × {line}") }).collect()
}

fn describe(instance: &Instance) -> String {
    let offering = &instance.offering;
    format!(
        "{} {} in {} at ${:.4} an hour",
        offering.instance_type,
        offering.capacity_type.as_str(),
        offering.zone,
        instance.price
    )
}

fn allocatable(node: &Value) -> String {
    let of = |resource| text(node, &format!("/status/allocatable/{resource}"));
    format!("allocatable: {} CPU, {} memory, {} pods", of("cpu"), of("memory"), of("pods"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_counted_wherever_they_are() {
        let parameters = json!({"LaunchTemplateConfigs": [
            {"Overrides": [{"InstanceType": "m7g.large"}, {"InstanceType": "m6g.large"}]},
            {"Overrides": [{"InstanceType": "m7a.large"}]}], "Type": "instant"});
        assert_eq!(overrides(&parameters), 3);
    }

    #[test]
    fn the_manifests_are_whole() {
        let kinds: Vec<Value> = manifests(NODE_POOL).unwrap().iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["EC2NodeClass", "NodePool"]);
        assert_eq!(manifests(INFLATE).unwrap()[0]["spec"]["replicas"], REPLICAS);
    }

    #[test]
    fn equal_lines_are_printed_once() {
        let lines = ["b", "a", "b"].map(str::to_owned).into_iter();
        assert_eq!(grouped(lines), ["2 × b", "a"]);
    }

    #[test]
    fn a_decision_is_printed() {
        let detail = json!({"launches": [{
            "pods": ["default/a", "default/b"],
            "instanceTypes": [{"name": "m7g.xlarge", "pricePerHour": 0.06}, {"name": "m6g.xlarge", "pricePerHour": 0.07}],
            "offering": {"instanceType": "m7g.xlarge", "zone": "us-east-1b", "capacityType": "spot", "pricePerHour": 0.06},
        }]});
        let decision = Decision {
            id: String::new(),
            at: Timestamp::UNIX_EPOCH,
            kind: "provisioning".into(),
            subjects: vec![],
            summary: String::new(),
            detail: detail.to_string(),
        };
        let expected = "for 2 pods: m7g.xlarge spot in us-east-1b at $0.0600 an hour\n  2 of 9 instance types may be \
            launched, the cheapest: m7g.xlarge $0.0600, m6g.xlarge $0.0700";
        assert_eq!(considered(&decision, 9), [expected]);
    }
}
