//! A second controller with Karpenter's API and a class of its own, as EKS Auto Mode, in every run: its NodePool, NodeClaims, Nodes and
//! instances come and go, ready and not. They have a taint, so that no pod of a scenario runs there.

use super::after;
use super::objects::refused;
use super::{ScenarioError, other_objects as objects};
use crate::Driver;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::{CapacityType, InstanceState, Offering};
use nodeless_fake_kubernetes::resource::NODES;
use nodeless_fake_kubernetes::{CreateOptions, DeleteOptions, PatchOptions, PatchType, Resource};
use nodeless_world::random::Random;
use nodeless_world::resources::{NODE_CLAIMS, NODE_POOLS};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How many of its nodes exist at a time.
const NODES_AT_A_TIME: usize = 3;

/// The next thing that happens to one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// Its instance is launched.
    Launch,
    /// Its Node joins, not ready.
    Join,
    /// Its Node becomes ready, or never does.
    BecomeReady,
    /// The NodeClaim and the Node are deleted; finalizers keep them.
    Delete,
    /// The instance is terminated. The Node is not ready, and only its finalizer keeps it.
    Terminate,
    /// The finalizers are removed.
    Release,
}

#[derive(Debug)]
struct OtherNode {
    number: u32,
    next: Next,
    due: Timestamp,
}

/// The second controller.
#[derive(Debug)]
pub(crate) struct OtherController {
    random: Random,
    nodes: Vec<OtherNode>,
    begun: u32,
    /// The tags of its instances, by id; `None` once it has terminated one.
    instances: BTreeMap<String, Option<BTreeMap<String, String>>>,
    /// Whether nothing happens any more.
    stopped: bool,
}

impl OtherController {
    /// Creates its NodePool and the first node.
    pub(crate) fn start(driver: &Driver, seed: u64) -> Result<Self, ScenarioError> {
        let random = Random::for_purpose(seed, "another controller");
        let mut controller = Self { random, nodes: Vec::new(), begun: 0, instances: BTreeMap::new(), stopped: false };
        create(driver, &NODE_POOLS, objects::node_pool())?;
        controller.begin(driver)?;
        Ok(controller)
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.nodes.iter().map(|node| node.due).min().filter(|_| !self.stopped)
    }

    /// Nothing happens any more: the cluster has to become quiescent.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Does what is due.
    pub(crate) fn act(&mut self, driver: &Driver) -> Result<(), ScenarioError> {
        let now = driver.world().now();
        if self.stopped {
            return Ok(());
        }
        for mut node in std::mem::take(&mut self.nodes) {
            if node.due <= now {
                let Some((next, wait)) = self.step(driver, &node)? else { continue };
                (node.next, node.due) = (next, after(now, wait));
            }
            self.nodes.push(node);
        }
        if self.nodes.len() < NODES_AT_A_TIME && self.nodes.iter().all(|node| node.next >= Next::Delete) {
            self.begin(driver)?;
        }
        Ok(())
    }

    fn begin(&mut self, driver: &Driver) -> Result<(), ScenarioError> {
        self.begun += 1;
        create(driver, &NODE_CLAIMS, objects::node_claim(self.begun))?;
        let due = after(driver.world().now(), self.seconds(5, 60));
        self.nodes.push(OtherNode { number: self.begun, next: Next::Launch, due });
        Ok(())
    }

    fn seconds(&mut self, least: i64, most: i64) -> SignedDuration {
        let span = u64::try_from(most - least).unwrap_or(0);
        SignedDuration::from_secs(least + i64::try_from(self.random.below(span + 1)).unwrap_or(0))
    }

    /// Takes a step of a node, and returns what happens next, and after which time; `None` when the node is gone.
    fn step(&mut self, driver: &Driver, node: &OtherNode) -> Result<Option<(Next, SignedDuration)>, ScenarioError> {
        let (claim, id) = (objects::claim_name(node.number), objects::instance_id(node.number));
        let zone = driver.world().options().zones.first().cloned().unwrap_or_default();
        let kind = driver.world().catalog().types.first().map(|kind| kind.facts.name.clone()).unwrap_or_default();
        Ok(Some(match node.next {
            Next::Launch => {
                let offering = Offering::new(&kind, &zone, CapacityType::OnDemand);
                let tags = objects::tags(&driver.world().options().cluster_name, &claim);
                driver.world().ec2().add_instance_of_others(&id, offering, tags.clone());
                self.instances.insert(id.clone(), Some(tags));
                let status = objects::launched(&zone, &id, driver.world().now());
                patch(driver, &NODE_CLAIMS, &claim, Some("status"), &status)?;
                (Next::Join, self.seconds(15, 90))
            }
            Next::Join => {
                create(driver, &NODES, objects::node(node.number, &zone, &kind))?;
                patch(driver, &NODES, &id, Some("status"), &objects::node_status(false, driver.world().now()))?;
                (Next::BecomeReady, self.seconds(5, 120))
            }
            Next::BecomeReady => {
                // Every third node never becomes ready.
                if !node.number.is_multiple_of(3) {
                    patch(driver, &NODES, &id, Some("status"), &objects::node_status(true, driver.world().now()))?;
                }
                (Next::Delete, self.seconds(300, 3_600))
            }
            Next::Delete => {
                for (resource, name) in [(NODE_CLAIMS, &claim), (NODES, &id)] {
                    let deleted = driver.world().api().delete(&resource, "", name, &DeleteOptions::default());
                    deleted.map_err(|status| refused(&format!("delete {name}"), &status))?;
                }
                (Next::Terminate, self.seconds(10, 120))
            }
            Next::Terminate => {
                self.instances.insert(id.clone(), None);
                driver.world().ec2().end_instance_of_others(&id);
                patch(driver, &NODES, &id, Some("status"), &objects::node_status(false, driver.world().now()))?;
                // The NodeClaim goes first, so that nothing but the finalizer of the Node shows whose it is.
                patch(driver, &NODE_CLAIMS, &claim, None, &json!({ "metadata": { "finalizers": null } }))?;
                (Next::Release, self.seconds(120, 600))
            }
            Next::Release => {
                patch(driver, &NODES, &id, None, &json!({ "metadata": { "finalizers": null } }))?;
                return Ok(None);
            }
        }))
    }

    /// What happened to its instances without its doing.
    pub(crate) fn disturbed(&self, driver: &Driver) -> Vec<String> {
        let instances = driver.world().ec2().instances();
        let known = instances.iter().filter_map(|one| Some((one, self.instances.get(&one.id)?.as_ref()?)));
        let wrong = known.filter(|(one, tags)| one.state != InstanceState::Running || one.tags != **tags);
        wrong
            .map(|(one, _)| {
                format!("instance {} of another controller is {:?}, with the tags {:?}", one.id, one.state, one.tags)
            })
            .collect()
    }
}

fn create(driver: &Driver, resource: &Resource, object: Value) -> Result<(), ScenarioError> {
    let created = driver.world().api().create(resource, object, &CreateOptions::default());
    created.map(drop).map_err(|status| refused(&format!("create {} of another controller", resource.kind), &status))
}

fn patch(
    driver: &Driver,
    resource: &Resource,
    name: &str,
    subresource: Option<&str>,
    body: &Value,
) -> Result<(), ScenarioError> {
    let api = driver.world().api();
    let patched = api.patch(resource, "", name, subresource, PatchType::Merge, body, &PatchOptions::default());
    patched
        .map(drop)
        .map_err(|status| refused(&format!("patch {} {name} of another controller", resource.kind), &status))
}
