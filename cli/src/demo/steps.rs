//! The steps of the demo. Each step does one thing, or waits for one thing that nodeless does, and prints what happened.

use super::objects::{condition, is_true, length, name, text};
use super::progress::{DemoProgress, Took};
use crate::local::{LocalWorld, human_duration};
use crate::plural::counted;
use jiff::Timestamp;
use nodeless_fake_aws::{Instance, InstanceState};
use nodeless_fake_kubernetes::resource::DEPLOYMENTS;
use nodeless_fake_kubernetes::{CreateOptions, PatchOptions, PatchType, Status};
use nodeless_model::{Dollars, DollarsPerHour};
use nodeless_ports::PortError;
use nodeless_state::decisions::Decision;
use nodeless_world::resources::{NODE_CLAIMS, NODE_CLASSES, NODE_POOLS};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NODE_POOL: &str = include_str!("node_pool.yaml");
const INFLATE: &str = include_str!("inflate.yaml");
/// The replicas of `inflate.yaml`.
const REPLICAS: usize = 5;
/// The time limit of each step in simulated time, equal to Karpenter's registration timeout.
const LIMIT: Duration = Duration::from_mins(15);
/// The polling interval, on the wall clock.
const POLL: Duration = Duration::from_millis(5);
/// The maximum number of instance types that are listed.
const NAMED: usize = 3;

/// Why the demo ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// A step timed out.
    #[error(
        "timed out after {} of simulated time: {what}; the last log lines of nodeless are above. This is a bug in nodeless; please report it",
        human_duration(LIMIT)
    )]
    Late {
        /// The expected result of the step.
        what: String,
    },
    /// The API server refused a manifest of the demo.
    #[error("the API server refused the manifests of the demo: {0}; this is a bug in nodeless, please report it")]
    Refused(#[from] Status),
    /// A manifest of the demo is not valid YAML.
    #[error("the manifests of the demo are not valid YAML: {0}; this is a bug in nodeless, please report it")]
    Manifest(String),
    /// The claims could not be read.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// The demo in one simulated cluster.
pub(crate) struct Demo<'a> {
    world: &'a LocalWorld,
    progress: &'a DemoProgress,
    /// When the current step began, in simulated time and on the wall clock.
    began: (Timestamp, Instant),
}

impl<'a> Demo<'a> {
    pub(crate) fn new(world: &'a LocalWorld, progress: &'a DemoProgress) -> Self {
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
        self.await_claims().await?;
        self.await_instances().await?;
        self.await_nodes().await?;
        self.await_running_pods().await?;
        let running = self.now();
        self.scale_down().await?;
        let scaled_down = self.now();
        self.await_disruption().await?;
        self.await_drains().await?;
        self.await_termination().await?;
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
            .wait("nodeless to resolve the EC2NodeClass and validate the NodePool", what, || {
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
        let what = format!("Deployment inflate: {REPLICAS} pods (cpu 1, memory 1Gi) pending");
        let why = self
            .wait("the scheduler to mark the pods as unschedulable", &what, || {
                let pods = world.pods();
                let scheduled = pods.iter().filter_map(|pod| condition(pod, "PodScheduled"));
                let mut unschedulable = scheduled.filter(|condition| condition["reason"] == "Unschedulable");
                let why = unschedulable.clone().next().map(|condition| text(condition, "/message").to_owned());
                (unschedulable.by_ref().count() == REPLICAS).then_some(why).flatten()
            })
            .await?;
        self.done(&what, &[format!("kube-scheduler: {why}")]);
        Ok(())
    }

    async fn await_claims(&mut self) -> Result<(), DemoError> {
        let what = "NodeClaims are created for the pods";
        self.progress.waiting_for("the plan of nodeless, which batches pods for one second");
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
        let created = decision.subjects.as_slice();
        let title = match created {
            [only] => format!("NodeClaim {only} is created"),
            many => format!("{} are created", counted(many.len(), "NodeClaim")),
        };
        let mut details = if created.len() > 1 { vec![created.join(", ")] } else { Vec::new() };
        details.extend(considered(&decision, self.world.catalog.types.len()));
        self.done(&title, &details);
        Ok(())
    }

    async fn await_instances(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "Instances are launched";
        self.wait("CreateFleet of EC2", what, || {
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
            "CreateFleet listed {} in {}",
            counted(offered.iter().sum::<usize>(), "offering"),
            counted(offered.len(), "call")
        ));
        self.done(&title, &details);
        Ok(())
    }

    async fn await_nodes(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "Nodes are registered and ready";
        let nodes = self
            .wait("the instances to boot and their kubelets to register", what, || {
                let (claims, nodes) = (world.objects(&NODE_CLAIMS), world.nodes());
                let all_ready = nodes.len() == claims.len()
                    && nodes.iter().all(|node| is_true(node, "Ready"))
                    && claims.iter().all(|claim| is_true(claim, "Initialized"));
                (all_ready && !nodes.is_empty()).then_some(nodes)
            })
            .await?;
        let title = match nodes.as_slice() {
            [only] => format!("Node {} is registered and ready", name(only)),
            many => format!("{} are registered and ready", counted(many.len(), "node")),
        };
        let details = grouped(nodes.iter().map(|node| allocatable(node)));
        self.done(&title, &details);
        Ok(())
    }

    async fn await_running_pods(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = format!("All {REPLICAS} pods run");
        self.wait("the kubelets to start the pods", &what, || {
            let running = world.pods().iter().filter(|pod| text(pod, "/status/phase") == "Running").count();
            (running == REPLICAS).then_some(())
        })
        .await?;
        self.done(&what, &[format!("the cluster costs {}", DollarsPerHour(world.ec2.hourly_price()))]);
        Ok(())
    }

    async fn scale_down(&mut self) -> Result<(), DemoError> {
        let (world, patch) = (self.world, json!({"spec": {"replicas": 0}}));
        let options = PatchOptions::default();
        world.api.patch(&DEPLOYMENTS, "default", "inflate", Some("scale"), PatchType::Merge, &patch, &options)?;
        let what = "Deployment inflate: scaled to 0, its pods are deleted";
        self.wait("the pods to be deleted", what, || world.pods().is_empty().then_some(())).await?;
        self.done(what, &[]);
        Ok(())
    }

    async fn await_disruption(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "The empty nodes are disrupted";
        self.wait("consolidateAfter (30 s) and the next plan", what, || {
            let claims = world.objects(&NODE_CLAIMS);
            claims
                .iter()
                .all(|claim| !text(claim, "/metadata/deletionTimestamp").is_empty() || is_terminating(claim))
                .then_some(())
        })
        .await?;
        let decisions = world.claims.decisions(100).await?.into_iter().rev();
        self.done(what, &grouped(decisions.filter(|it| it.kind == "disruption").map(|it| it.summary)));
        Ok(())
    }

    async fn await_drains(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "The nodes are tainted and drained";
        self.wait("the drain, which takes at least 5 s", what, || {
            let claims = world.objects(&NODE_CLAIMS);
            claims.iter().all(|claim| is_true(claim, "Drained")).then_some(())
        })
        .await?;
        self.done(what, &[]);
        Ok(())
    }

    async fn await_termination(&mut self) -> Result<(), DemoError> {
        let world = self.world;
        let what = "Instances are terminated, Nodes and NodeClaims are deleted";
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
            ("From pending to running pods", human_duration(between(up.0, up.1))),
            ("From scaling to 0 to no instances", human_duration(between(down.0, down.1))),
            (
                "Total time",
                format!(
                    "{} simulated, {} on the wall clock",
                    human_duration(between(start, self.now())),
                    human_duration(self.world.pace.elapsed())
                ),
            ),
            (
                "Cost of EC2",
                format!("{}, and {} from now on", Dollars(ec2.spent()), DollarsPerHour(ec2.hourly_price())),
            ),
            ("Calls to EC2", calls.join(", ")),
        ];
        self.progress.print("");
        for (what, value) in lines {
            self.progress.print(&format!("  {what:38} {value}"));
        }
    }

    /// Polls until `look` returns a value.
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

fn is_terminating(claim: &Value) -> bool {
    ["Drained", "InstanceTerminating"].iter().any(|kind| condition(claim, kind).is_some())
}

/// The chosen and the allowed instance types of a provisioning decision, for each node.
fn considered(decision: &Decision, all_types: usize) -> Vec<String> {
    let detail = nodeless_planner::unpacked(&decision.detail).unwrap_or_default();
    let launches = detail["launches"].as_array().cloned().unwrap_or_default();
    grouped(launches.iter().map(|launch| considered_for_launch(launch, all_types)))
}

fn considered_for_launch(launch: &Value, all_types: usize) -> String {
    let types = launch["instanceTypes"].as_array().cloned().unwrap_or_default();
    let price = |of: &Value| of["pricePerHour"].as_f64().unwrap_or_default();
    let named: Vec<String> = types
        .iter()
        .take(NAMED)
        .map(|kind| format!("{} {}", text(kind, "/name"), DollarsPerHour(price(kind))))
        .collect();
    let offering = &launch["offering"];
    format!(
        "for {}: {} {} in {} at {}\n  {} of {all_types} instance types may be launched, the cheapest: {}",
        counted(length(launch, "/pods"), "pod"),
        text(offering, "/instanceType"),
        text(offering, "/capacityType"),
        text(offering, "/zone"),
        DollarsPerHour(price(offering)),
        types.len(),
        named.join(", "),
    )
}

/// The number of offerings that a CreateFleet call lists.
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

/// Merges equal lines and counts them, in the order of their first occurrence.
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
        "{} {} in {} at {}",
        offering.instance_type,
        offering.capacity_type.as_str(),
        offering.zone,
        DollarsPerHour(instance.price)
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
    fn overrides_are_counted_at_any_depth() {
        let parameters = json!({"LaunchTemplateConfigs": [
            {"Overrides": [{"InstanceType": "m7g.large"}, {"InstanceType": "m6g.large"}]},
            {"Overrides": [{"InstanceType": "m7a.large"}]}], "Type": "instant"});
        assert_eq!(overrides(&parameters), 3);
    }

    #[test]
    fn the_manifests_are_complete() {
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
        let expected = "for 2 pods: m7g.xlarge spot in us-east-1b at $0.0600/h\n  2 of 9 instance types may be \
            launched, the cheapest: m7g.xlarge $0.0600/h, m6g.xlarge $0.0700/h";
        assert_eq!(considered(&decision, 9), [expected]);
    }
}
