//! Doing what happens from outside.

use super::scenario::{BadMachines, Deed, Named, Scenario, ScenarioError, Shortage};
use super::timeline::{Happening, after};
use crate::Controller;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::requests::TerminateInstances;
use nodeless_fake_aws::{CapacityType, Instance, InstanceState, LaunchFault, OfferingPattern};
use nodeless_fake_kubernetes::resource as known;
use nodeless_fake_kubernetes::{CreateOptions, DeleteOptions, ListOptions, PatchOptions, PatchType, Resource, Status};
use nodeless_ports::ErrorKind;
use nodeless_world::random::Random;
use serde_json::{Value, json};

/// What ends at a time.
#[derive(Debug, Default)]
pub(super) struct Ends {
    shortages: Vec<(Timestamp, OfferingPattern)>,
    /// Those of zones, which end by themselves unless everything ends.
    shifts: Vec<(Timestamp, String)>,
}

impl Ends {
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.shortages.iter().map(|(at, _)| *at).min()
    }

    /// Ends what is over; everything, if that is asked for.
    pub(super) fn take(&mut self, controller: &mut Controller, now: Timestamp, all: bool) {
        for (_, zone) in self.shifts.extract_if(.., |(until, _)| all || *until <= now) {
            controller.world_mut().cancel_zonal_shift(&zone);
        }
        let (over, left) = std::mem::take(&mut self.shortages).into_iter().partition(|(at, _)| all || *at <= now);
        self.shortages = left;
        let over: Vec<(Timestamp, OfferingPattern)> = over;
        for (_, pattern) in over {
            controller.world().ec2().restore(pattern);
        }
    }
}

/// The resource of a kind.
pub(super) fn resource(kind: &str) -> Result<Resource, ScenarioError> {
    Ok(match kind {
        "NodePool" => Resource::custom("karpenter.sh", "v1", "nodepools", "NodePool", false),
        "NodeClaim" => Resource::custom("karpenter.sh", "v1", "nodeclaims", "NodeClaim", false),
        "NodeOverlay" => Resource::custom("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", false),
        "CapacityBuffer" => {
            Resource::custom("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", true)
        }
        "EC2NodeClass" => Resource::custom("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", false),
        "Deployment" => known::DEPLOYMENTS,
        "StatefulSet" => known::STATEFUL_SETS,
        "DaemonSet" => known::DAEMON_SETS,
        "ReplicaSet" => known::REPLICA_SETS,
        "Job" => known::JOBS,
        "Pod" => known::PODS,
        "PodDisruptionBudget" => known::POD_DISRUPTION_BUDGETS,
        "PriorityClass" => known::PRIORITY_CLASSES,
        "Namespace" => known::NAMESPACES,
        "PodTemplate" => known::POD_TEMPLATES,
        "StorageClass" => known::STORAGE_CLASSES,
        "PersistentVolumeClaim" => known::PERSISTENT_VOLUME_CLAIMS,
        "PersistentVolume" => known::PERSISTENT_VOLUMES,
        "Node" => known::NODES,
        other => {
            return Err(ScenarioError::Value {
                field: "kind".to_owned(),
                why: format!(
                    "{other} is not simulated; use NodePool, EC2NodeClass, NodeOverlay, CapacityBuffer, Deployment, StatefulSet, \
                     DaemonSet, ReplicaSet, Job, Pod, PodTemplate, PodDisruptionBudget, PersistentVolume, \
                     PersistentVolumeClaim, StorageClass, PriorityClass or Namespace"
                ),
            });
        }
    })
}

fn refused(what: &str, status: &Status) -> ScenarioError {
    ScenarioError::Value { field: what.to_owned(), why: format!("the API server says: {status}") }
}

/// Checks every object that a scenario has or will have, before anything happens: its kind, and that it has no field that the
/// kind does not have, as `kubectl apply --validate=strict` does.
pub(super) fn check(controller: &Controller, scenario: &Scenario) -> Result<(), ScenarioError> {
    for (index, object) in scenario.objects.iter().enumerate() {
        check_object(controller, &format!("objects[{index}]"), object)?;
    }
    for (index, action) in scenario.actions.iter().enumerate() {
        match &action.what {
            Deed::Apply(object) => check_object(controller, &format!("actions[{index}].apply"), object)?,
            Deed::Delete(named) => resource(&named.kind).map(drop)?,
            _ => {}
        }
    }
    for (index, jobs) in scenario.jobs.iter().enumerate() {
        check_object(controller, &format!("jobs[{index}]"), &jobs.object(0))?;
    }
    Ok(())
}

fn check_object(controller: &Controller, place: &str, object: &Value) -> Result<(), ScenarioError> {
    let named = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let field = format!("{place}, {} {}", named("/kind"), named("/metadata/name"));
    let wrong = |why: String| Err(ScenarioError::Value { field: field.clone(), why });
    let known = resource(named("/kind"))?;
    if named("/metadata/name").is_empty() {
        return wrong("it has no metadata.name".to_owned());
    }
    if named("/apiVersion") != known.api_version() {
        return wrong(format!("apiVersion is {:?}; write {}", named("/apiVersion"), known.api_version()));
    }
    let unknown = controller.world().api().unknown_fields(&known, object).map_err(|status| refused(&field, &status))?;
    if unknown.is_empty() {
        return Ok(());
    }
    let listed: Vec<String> = unknown.iter().map(|field| format!("{field:?}")).collect();
    wrong(format!("there is no field {} in a {} of {}", listed.join(", "), known.kind, known.api_version()))
}

/// Creates or replaces an object.
pub(super) fn apply(controller: &Controller, object: &Value) -> Result<(), ScenarioError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let resource = resource(kind)?;
    let api = controller.world().api();
    let what = format!("{kind} {name}");
    let namespace = if resource.namespaced { namespace } else { "" };
    if api.get(&resource, namespace, name).is_ok() {
        let options = PatchOptions::default();
        let patched = api.patch(&resource, namespace, name, None, PatchType::Merge, object, &options);
        return patched.map(drop).map_err(|status| refused(&what, &status));
    }
    let created = api.create(&resource, object.clone(), &CreateOptions::default());
    created.map(drop).map_err(|status| refused(&what, &status))
}

/// Does something. Returns a line about it for people.
pub(super) fn happen(
    controller: &mut Controller,
    happening: &Happening,
    random: &mut Random,
    ends: &mut Ends,
) -> Result<String, ScenarioError> {
    match happening {
        Happening::Scale { kind, namespace, name, replicas } => {
            let patch = json!({ "spec": { "replicas": replicas } });
            let options = PatchOptions::default();
            let api = controller.world().api();
            let done = api.patch(&resource(kind)?, namespace, name, None, PatchType::Merge, &patch, &options);
            done.map_err(|status| refused(&format!("scale {name}"), &status))?;
            Ok(format!("{kind} {name} is scaled to {replicas}"))
        }
        Happening::Deed(deed) => do_it(controller, deed, random, ends),
    }
}

fn do_it(
    controller: &mut Controller,
    deed: &Deed,
    random: &mut Random,
    ends: &mut Ends,
) -> Result<String, ScenarioError> {
    let now = controller.world().now();
    let ec2 = controller.world().ec2().clone();
    match deed {
        Deed::Apply(object) => {
            apply(controller, object)?;
            let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
            Ok(format!("{} {} is applied", text("/kind"), text("/metadata/name")))
        }
        Deed::Delete(Named { kind, namespace, name }) => {
            let resource = resource(kind)?;
            let namespace = if resource.namespaced { namespace } else { "" };
            match controller.world().api().delete(&resource, namespace, name, &DeleteOptions::default()) {
                Err(status) if status.code != 404 => Err(refused(&format!("delete {kind} {name}"), &status)),
                _ => Ok(format!("{kind} {name} is deleted")),
            }
        }
        Deed::DeleteNodeClaims(count) => Ok(delete_some(controller, "NodeClaim", *count, random)),
        Deed::DeleteNodes(count) => Ok(delete_some(controller, "Node", *count, random)),
        Deed::InterruptSpot(count) => {
            let chosen = some_of(ids(controller, |it| it.offering.capacity_type == CapacityType::Spot), *count, random);
            let done: Vec<String> = chosen.into_iter().filter(|id| ec2.interrupt_spot(id).is_ok()).collect();
            Ok(format!("EC2 takes back {}", listed(&done)))
        }
        Deed::RebalanceSpot(count) => {
            let chosen = some_of(ids(controller, |it| it.offering.capacity_type == CapacityType::Spot), *count, random);
            let done: Vec<String> = chosen.into_iter().filter(|id| ec2.recommend_rebalance(id).is_ok()).collect();
            Ok(format!("EC2 recommends replacing {}", listed(&done)))
        }
        Deed::KillMachines(count) => {
            let instance_ids = some_of(ids(controller, |_| true), *count, random);
            if !instance_ids.is_empty() {
                let request = TerminateInstances { instance_ids: instance_ids.clone(), dry_run: false };
                // One that EC2 does not yet describe cannot be named, by a person either.
                let _unknown = ec2.terminate_instances(&request);
            }
            Ok(format!("{} stop without a warning", listed(&instance_ids)))
        }
        Deed::SilenceMachines(count) => {
            let chosen = some_of(ids(controller, |_| true), *count, random);
            let silent: Vec<String> = chosen.into_iter().filter(|id| controller.world_mut().silence(id)).collect();
            Ok(format!("{} no longer answer", listed(&silent)))
        }
        Deed::ImpairMachines(count) => {
            let chosen = some_of(ids(controller, |_| true), *count, random);
            let impaired: Vec<String> = chosen.into_iter().filter(|id| ec2.impair(id)).collect();
            Ok(format!("{} fail their status checks", listed(&impaired)))
        }
        Deed::NewImages(_) => {
            let version = controller.world().options().version.clone();
            ec2.change_account(|account| account.add_eks_images(&version, now));
            Ok("a new EKS image is published".to_owned())
        }
        Deed::Shortage(shortage) => {
            let pattern = pattern(shortage)?;
            match shortage.left {
                0 => ec2.exhaust(pattern.clone()),
                left => ec2.run_short(pattern.clone(), left),
            }
            ends.shortages.push((after(now, shortage.lasts), pattern));
            let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "any".to_owned());
            let (kind, zone, bought) =
                (some(&shortage.instance_type), some(&shortage.zone), some(&shortage.capacity_type));
            let first = if shortage.left > 0 { format!("after {} more, ", shortage.left) } else { String::new() };
            Ok(format!("{first}EC2 lacks type {kind}, zone {zone}, capacity {bought} for {:#}", shortage.lasts))
        }
        Deed::ZonalShift(shift) => {
            let until = after(now, shift.lasts);
            if !controller.world_mut().start_zonal_shift(&shift.zone, until) {
                let why = format!("there is no zone {}; use one of zones", shift.zone);
                return Err(ScenarioError::Value { field: "zonalShift".to_owned(), why });
            }
            ends.shifts.push((until, shift.zone.clone()));
            Ok(format!("the cluster is shifted away from {} for {:#}", shift.zone, shift.lasts))
        }
        Deed::Outage(outage) => {
            if let Some(fault_injection) = controller.fault_injection() {
                fault_injection.break_down(&outage.of, after(now, outage.lasts), ErrorKind::Unavailable);
            }
            Ok(format!("{} fails for {:#}", outage.of, outage.lasts))
        }
        Deed::BadMachines(bad) => {
            ec2.spoil_launches(OfferingPattern::default(), launch_fault(bad)?, bad.count);
            let machines = if bad.count == 1 { "machine".to_owned() } else { format!("{} machines", bad.count) };
            Ok(format!("the next {machines}: {}", bad.fault))
        }
    }
}

fn launch_fault(bad: &BadMachines) -> Result<LaunchFault, ScenarioError> {
    match bad.fault.as_str() {
        "neverStarts" => Ok(LaunchFault::NeverStarts),
        "neverJoins" => Ok(LaunchFault::NeverJoins),
        "failsToStart" => Ok(LaunchFault::FailsToStart),
        other => Err(ScenarioError::Value {
            field: "badMachines".to_owned(),
            why: format!("{other} is no fault; use neverStarts, neverJoins or failsToStart"),
        }),
    }
}

fn pattern(shortage: &Shortage) -> Result<OfferingPattern, ScenarioError> {
    let capacity_type = match shortage.capacity_type.as_deref() {
        None => None,
        Some("spot") => Some(CapacityType::Spot),
        Some("on-demand") => Some(CapacityType::OnDemand),
        Some(other) => {
            return Err(ScenarioError::Value {
                field: "shortage".to_owned(),
                why: format!("{other} is no capacity type; use spot or on-demand"),
            });
        }
    };
    Ok(OfferingPattern { instance_type: shortage.instance_type.clone(), zone: shortage.zone.clone(), capacity_type })
}

/// Instances that run, in the order of their ids.
fn ids(controller: &Controller, wanted: impl Fn(&Instance) -> bool) -> Vec<String> {
    let all = controller.world().ec2().instances().into_iter();
    all.filter(|it| it.state == InstanceState::Running && wanted(it)).map(|it| it.id).collect()
}

fn delete_some(controller: &Controller, kind: &str, count: u32, random: &mut Random) -> String {
    let Ok(resource) = resource(kind) else { return String::new() };
    let api = controller.world().api();
    let names = api.list(&resource, &ListOptions::default()).map(|list| list.items).unwrap_or_default();
    let present = names.iter().filter(|object| object.pointer("/metadata/deletionTimestamp").is_none());
    let names = present.filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect();
    let chosen = some_of(names, count, random);
    let gone = |name: &String| api.delete(&resource, "", name, &DeleteOptions::default()).is_ok();
    let deleted: Vec<String> = chosen.into_iter().filter(gone).collect();
    format!("somebody deletes {kind} {}", listed(&deleted))
}

fn some_of(mut from: Vec<String>, count: u32, random: &mut Random) -> Vec<String> {
    let mut chosen = Vec::new();
    while chosen.len() < usize::try_from(count).unwrap_or(usize::MAX) && !from.is_empty() {
        let at = usize::try_from(random.below(u64::try_from(from.len()).unwrap_or(1))).unwrap_or(0);
        chosen.push(from.remove(at));
    }
    chosen
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing, as there is nothing".to_owned() } else { names.join(", ") }
}

/// A little later than something.
pub(super) const MOMENT: SignedDuration = SignedDuration::from_millis(1);
