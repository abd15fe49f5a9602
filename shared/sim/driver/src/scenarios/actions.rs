//! Executes the actions of a scenario.

mod prices;

use super::action::DENIABLE;
use super::active_faults::{ActiveFaults, End, set_quota};
use super::misconfigurations;
use super::objects::{apply_status, refused, resource};
use super::other_objects::{is_instance_of_other, is_of_other};
use super::selection::{listed, some_of};
use super::timeline::{Entry, Size, after};
use super::{
    Action, BadMachines, Denial, Named, OneZone, Outage, Quota, RefusePods, ScenarioError, Shortage, SlowCalls,
    SomePods,
};
use crate::Driver;
use jiff::SignedDuration;
use nodeless_fake_aws::requests::{ChangeTags, Tag, TerminateInstances};
use nodeless_fake_aws::{CapacityType, Instance, InstanceState, LaunchFault, OfferingPattern};
use nodeless_fake_kubernetes::resource::PODS;
use nodeless_fake_kubernetes::{DeleteOptions, LOAD, ListOptions, PatchOptions, PatchType};
use nodeless_model::labels;
use nodeless_ports::ErrorKind;
use nodeless_world::random::Random;
use serde_json::{Value, json};
use std::time::Duration;

/// The tags by which nodeless finds its instances.
const FOUND_BY: [&str; 4] =
    [labels::CLUSTER_NAME_TAG, labels::NODE_POOL, labels::EC2_NODE_CLASS, labels::LAUNCH_GROUP_TAG];

/// How long calls of the API server fail after another certificate authority was activated: a function that does not trust it reads the
/// bundle again, once a minute at most.
const RECONNECTED_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Executes an entry of the timeline. Returns a description of it.
pub(crate) fn carry_out(
    driver: &mut Driver,
    entry: &Entry,
    random: &mut Random,
    active: &mut ActiveFaults,
) -> Result<String, ScenarioError> {
    match entry {
        Entry::Scale { kind, namespace, name, to } => {
            let (patch, what) = match to {
                Size::Replicas(replicas) => {
                    (json!({ "spec": { "replicas": replicas } }), format!("is scaled to {replicas}"))
                }
                Size::Load(cpus) => {
                    let annotations = json!({ LOAD: cpus.to_string() });
                    (json!({ "metadata": { "annotations": annotations } }), format!("has work for {cpus} CPUs"))
                }
            };
            let options = PatchOptions::default();
            let api = driver.world().api();
            let done = api.patch(&resource(kind)?, namespace, name, None, PatchType::Merge, &patch, &options);
            done.map_err(|status| refused(&format!("scale {name}"), &status))?;
            Ok(format!("{kind} {name} {what}"))
        }
        Entry::BackUpTable => {
            active.back_up(driver.world().now(), driver.claims().table().backup());
            Ok("the claims table is backed up".to_owned())
        }
        Entry::Action(action) => perform(driver, action, random, active),
    }
}

fn perform(
    driver: &mut Driver,
    action: &Action,
    random: &mut Random,
    active: &mut ActiveFaults,
) -> Result<String, ScenarioError> {
    let now = driver.world().now();
    let ec2 = driver.world().ec2().clone();
    match action {
        Action::Apply(object) => apply(driver, object, active),
        Action::ApplyStatus(object) => change_status(driver, object),
        Action::Delete(named) => delete(driver, named),
        Action::DeleteNodeClaims(count) => Ok(delete_some(driver, "NodeClaim", *count, random)),
        Action::DeleteNodes(count) => Ok(delete_some(driver, "Node", *count, random)),
        Action::InterruptSpot(count) => Ok(interrupt_spot(driver, *count, random)),
        Action::RebalanceSpot(count) => Ok(rebalance_spot(driver, *count, random)),
        Action::KillMachines(count) => Ok(kill_machines(driver, *count, random)),
        Action::SilenceMachines(count) => Ok(silence_machines(driver, *count, random)),
        Action::ImpairMachines(count) => Ok(impair_machines(driver, *count, random)),
        Action::UntagMachines(count) => Ok(untag_machines(driver, *count, random)),
        Action::UnreadyPods(some) => Ok(make_unready(driver, some, random, active)),
        Action::HangingPods(some) => Ok(hang(driver, some, random, active)),
        Action::RefusePods(refuse) => refuse_pods(driver, refuse, active),
        Action::SlowDetachments(slow) => {
            driver.world_mut().set_detachment(Some(slow.take));
            active.add(after(now, slow.lasts), End::SlowDetachments(slow.take));
            Ok(format!("volumes take {:#} to detach for {:#}", slow.take, slow.lasts))
        }
        Action::RestoreTable(restore) => {
            driver.claims().restore(active.backup_of(after(now, -restore.ago)));
            Ok(format!("the claims table is restored to {:#} before", restore.ago))
        }
        Action::RecreateTable => {
            driver.claims().restore(None);
            Ok("the claims table is deleted and created again".to_owned())
        }
        Action::ChangePrices(change) => prices::change(driver, change, random),
        Action::BuyReservedInstances(bought) => prices::buy_reserved_instances(driver, bought),
        Action::BuySavingsPlan(bought) => prices::buy_savings_plan(driver, bought),
        Action::AddCertificateAuthority => {
            driver.world_mut().add_certificate_authority();
            Ok("EKS adds a successor of the certificate authority".to_owned())
        }
        Action::ActivateCertificateAuthority => Ok(activate_certificate_authority(driver)),
        Action::NewImages(_) => {
            let version = driver.world().options().version.clone();
            ec2.change_account(|account| account.add_eks_images(&version, now));
            Ok("a new EKS image is published".to_owned())
        }
        Action::Misconfigure(misconfigure) => misconfigurations::misconfigure(driver, misconfigure, random, active),
        Action::RecreateNodePools(recreate) => misconfigurations::recreate(driver, recreate, random, active),
        Action::Shortage(shortage) => run_short(driver, shortage, active),
        Action::ZonalShift(shift) => shift_away(driver, shift, active),
        Action::Outage(outage) => Ok(fail_calls(driver, outage)),
        Action::SlowCalls(slow) => Ok(slow_calls(driver, slow)),
        Action::ZoneFailure(failure) => fail_zone(driver, failure, active),
        Action::Denial(denial) => deny(driver, denial, active),
        Action::Quota(quota) => lower_quota(driver, quota, active),
        Action::BadMachines(bad) => {
            ec2.spoil_launches(OfferingPattern::default(), launch_fault(bad)?, bad.count);
            let machines = if bad.count == 1 { "machine".to_owned() } else { format!("{} machines", bad.count) };
            Ok(format!("the next {machines}: {}", bad.fault))
        }
    }
}

fn apply(driver: &Driver, object: &Value, active: &mut ActiveFaults) -> Result<String, ScenarioError> {
    active.apply(driver, object)?;
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    Ok(format!("{} {} is applied", text("/kind"), text("/metadata/name")))
}

fn change_status(driver: &Driver, object: &Value) -> Result<String, ScenarioError> {
    apply_status(driver, object)?;
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    Ok(format!("the status of {} {} is changed", text("/kind"), text("/metadata/name")))
}

fn delete(driver: &Driver, named: &Named) -> Result<String, ScenarioError> {
    let Named { kind, namespace, name } = named;
    let resource = resource(kind)?;
    let namespace = if resource.namespaced { namespace } else { "" };
    match driver.world().api().delete(&resource, namespace, name, &DeleteOptions::default()) {
        Err(status) if status.code != 404 => Err(refused(&format!("delete {kind} {name}"), &status)),
        _ => Ok(format!("{kind} {name} is deleted")),
    }
}

fn interrupt_spot(driver: &Driver, count: u32, random: &mut Random) -> String {
    let ec2 = driver.world().ec2();
    let chosen = some_of(ids(driver, |it| it.offering.capacity_type == CapacityType::Spot), count, random);
    let done: Vec<String> = chosen.into_iter().filter(|id| ec2.interrupt_spot(id).is_ok()).collect();
    format!("EC2 interrupts {}", listed(&done))
}

fn rebalance_spot(driver: &Driver, count: u32, random: &mut Random) -> String {
    let ec2 = driver.world().ec2();
    let chosen = some_of(ids(driver, |it| it.offering.capacity_type == CapacityType::Spot), count, random);
    let done: Vec<String> = chosen.into_iter().filter(|id| ec2.recommend_rebalance(id).is_ok()).collect();
    format!("EC2 recommends replacing {}", listed(&done))
}

fn kill_machines(driver: &Driver, count: u32, random: &mut Random) -> String {
    let ec2 = driver.world().ec2();
    let instance_ids = some_of(ids(driver, |_| true), count, random);
    if !instance_ids.is_empty() {
        let request = TerminateInstances { instance_ids: instance_ids.clone(), dry_run: false };
        // An instance that EC2 does not describe yet cannot be selected, as in reality.
        let _unknown = ec2.terminate_instances(&request);
    }
    format!("{} stop without warning", listed(&instance_ids))
}

fn silence_machines(driver: &mut Driver, count: u32, random: &mut Random) -> String {
    let chosen = some_of(ids(driver, |_| true), count, random);
    let silent: Vec<String> = chosen.into_iter().filter(|id| driver.world_mut().silence(id)).collect();
    format!("{} no longer answer", listed(&silent))
}

fn impair_machines(driver: &Driver, count: u32, random: &mut Random) -> String {
    let ec2 = driver.world().ec2();
    let chosen = some_of(ids(driver, |_| true), count, random);
    let impaired: Vec<String> = chosen.into_iter().filter(|id| ec2.impair(id)).collect();
    format!("{} fail their status checks", listed(&impaired))
}

fn untag_machines(driver: &Driver, count: u32, random: &mut Random) -> String {
    let ec2 = driver.world().ec2();
    // Without a record nor tags, an instance is one of somebody else.
    let recorded = |it: &Instance| driver.claims().of_instance(&it.id).is_some();
    let chosen = some_of(ids(driver, recorded), count, random);
    let tags = FOUND_BY.map(|key| Tag { key: key.to_owned(), value: None }).to_vec();
    let request = ChangeTags { resources: chosen.clone(), tags, dry_run: false };
    if !chosen.is_empty() {
        // Instances that EC2 does not describe yet cannot be selected.
        let _unknown = ec2.delete_tags(&request);
    }
    format!("a person removes the tags of {}", listed(&chosen))
}

fn make_unready(driver: &mut Driver, some: &SomePods, random: &mut Random, active: &mut ActiveFaults) -> String {
    let now = driver.world().now();
    let (uids, names) = running_pods(driver, some.count, random);
    uids.iter().for_each(|pod| driver.world_mut().set_pod_ready(pod, false));
    active.add(after(now, some.lasts), End::UnreadyPods(uids));
    format!("the readiness probes fail for {:#} of {}", some.lasts, listed(&names))
}

fn hang(driver: &mut Driver, some: &SomePods, random: &mut Random, active: &mut ActiveFaults) -> String {
    let now = driver.world().now();
    let (uids, names) = running_pods(driver, some.count, random);
    uids.iter().for_each(|pod| driver.world_mut().set_pod_stops(pod, false));
    active.add(after(now, some.lasts), End::HangingPods(uids));
    format!("the containers do not stop for {:#} of {}", some.lasts, listed(&names))
}

fn refuse_pods(driver: &mut Driver, refuse: &RefusePods, active: &mut ActiveFaults) -> Result<String, ScenarioError> {
    let now = driver.world().now();
    let Some((key, value)) = refuse.label.split_once('=') else {
        let why = format!("{} is no label; write it like app=web", refuse.label);
        return Err(ScenarioError::Value { field: "refusePods".to_owned(), why });
    };
    driver.world_mut().set_refused(key, value, true);
    active.add(after(now, refuse.lasts), End::RefusedPods(key.to_owned(), value.to_owned()));
    Ok(format!("kube-scheduler places no pods with {} for {:#}", refuse.label, refuse.lasts))
}

fn activate_certificate_authority(driver: &mut Driver) -> String {
    let now = driver.world().now();
    let lost = driver.world_mut().activate_certificate_authority();
    if let Some(fault_injection) = driver.fault_injection() {
        fault_injection.fail_until("cluster", after(now, RECONNECTED_AFTER), ErrorKind::Unavailable);
    }
    format!("EKS activates the certificate authority; these lose the API server: {}", listed(&lost))
}

fn run_short(driver: &Driver, shortage: &Shortage, active: &mut ActiveFaults) -> Result<String, ScenarioError> {
    let now = driver.world().now();
    let ec2 = driver.world().ec2();
    let pattern = pattern(shortage)?;
    match shortage.left {
        0 => ec2.exhaust(pattern.clone()),
        left => ec2.run_short(pattern.clone(), left),
    }
    active.add(after(now, shortage.lasts), End::Shortage(pattern));
    let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "any".to_owned());
    let (kind, zone, bought) = (some(&shortage.instance_type), some(&shortage.zone), some(&shortage.capacity_type));
    let first = if shortage.left > 0 { format!("after {} more, ", shortage.left) } else { String::new() };
    Ok(format!("{first}EC2 lacks type {kind}, zone {zone}, capacity {bought} for {:#}", shortage.lasts))
}

fn shift_away(driver: &mut Driver, shift: &OneZone, active: &mut ActiveFaults) -> Result<String, ScenarioError> {
    let now = driver.world().now();
    let until = after(now, shift.lasts);
    if !driver.world_mut().start_zonal_shift(&shift.zone, until) {
        let why = format!("there is no zone {}; use one of zones", shift.zone);
        return Err(ScenarioError::Value { field: "zonalShift".to_owned(), why });
    }
    active.add(until, End::ZonalShift(shift.zone.clone()));
    Ok(format!("the cluster is shifted away from {} for {:#}", shift.zone, shift.lasts))
}

fn fail_calls(driver: &Driver, outage: &Outage) -> String {
    let now = driver.world().now();
    if let Some(fault_injection) = driver.fault_injection() {
        let kind = if outage.throttled { ErrorKind::Throttled } else { ErrorKind::Unavailable };
        fault_injection.fail_until(&outage.of, after(now, outage.lasts), kind);
    }
    let what = if outage.throttled { "is throttled" } else { "fails" };
    format!("{} {what} for {:#}", outage.of, outage.lasts)
}

fn slow_calls(driver: &Driver, slow: &SlowCalls) -> String {
    let now = driver.world().now();
    let take = Duration::try_from(slow.take).unwrap_or_default();
    if let Some(fault_injection) = driver.fault_injection() {
        fault_injection.slow_until(&slow.of, take, after(now, slow.lasts));
    }
    format!("calls of {} take {:#} for {:#}", slow.of, slow.take, slow.lasts)
}

fn fail_zone(driver: &mut Driver, failure: &OneZone, active: &mut ActiveFaults) -> Result<String, ScenarioError> {
    let now = driver.world().now();
    if !driver.world().catalog().zones.iter().any(|zone| zone.name == failure.zone) {
        let why = format!("there is no zone {}; use one of zones", failure.zone);
        return Err(ScenarioError::Value { field: "zoneFailure".to_owned(), why });
    }
    driver.world_mut().fail_zone(&failure.zone);
    active.add(after(now, failure.lasts), End::ZoneFailure(failure.zone.clone()));
    Ok(format!("zone {} fails for {:#}", failure.zone, failure.lasts))
}

fn deny(driver: &Driver, denial: &Denial, active: &mut ActiveFaults) -> Result<String, ScenarioError> {
    let now = driver.world().now();
    let ec2 = driver.world().ec2();
    let Some(api) = DENIABLE.into_iter().find(|api| *api == denial.api) else {
        let why = format!("{} is not called; use one of {}", denial.api, DENIABLE.join(", "));
        return Err(ScenarioError::Value { field: "denial".to_owned(), why });
    };
    ec2.deny(api);
    active.add(after(now, denial.lasts), End::Denial(api.to_owned()));
    Ok(format!("EC2 does not authorize {api} for {:#}", denial.lasts))
}

fn lower_quota(driver: &Driver, quota: &Quota, active: &mut ActiveFaults) -> Result<String, ScenarioError> {
    let now = driver.world().now();
    let capacity_type = capacity_type("quota", &quota.capacity_type)?;
    set_quota(driver, capacity_type, Some(quota.vcpus));
    active.add(after(now, quota.lasts), End::Quota(capacity_type, quota.vcpus));
    let Quota { capacity_type, vcpus, lasts } = quota;
    Ok(format!("the quota of {capacity_type} instances is {vcpus} vCPUs for {lasts:#}"))
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
    let capacity_type = shortage.capacity_type.as_deref().map(|name| capacity_type("shortage", name)).transpose()?;
    Ok(OfferingPattern { instance_type: shortage.instance_type.clone(), zone: shortage.zone.clone(), capacity_type })
}

fn capacity_type(field: &str, name: &str) -> Result<CapacityType, ScenarioError> {
    match name {
        "spot" => Ok(CapacityType::Spot),
        "on-demand" => Ok(CapacityType::OnDemand),
        other => Err(ScenarioError::Value {
            field: field.to_owned(),
            why: format!("{other} is no capacity type; use spot or on-demand"),
        }),
    }
}

/// The uids and the names of running pods, chosen at random.
fn running_pods(driver: &Driver, count: u32, random: &mut Random) -> (Vec<String>, Vec<String>) {
    let list = driver.world().api().list(&PODS, &ListOptions::default());
    let mut pods = list.map(|list| list.items).unwrap_or_default();
    pods.retain(|pod| pod["status"]["phase"] == "Running");
    let field = |pod: &Value, name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
    let chosen = some_of(pods, count, random);
    chosen.iter().map(|pod| (field(pod, "uid"), field(pod, "name"))).unzip()
}

/// Running instances, in the order of their ids, without those of another controller.
fn ids(driver: &Driver, matches: impl Fn(&Instance) -> bool) -> Vec<String> {
    let all = driver.world().ec2().instances().into_iter().filter(|it| !is_instance_of_other(it));
    all.filter(|it| it.state == InstanceState::Running && matches(it)).map(|it| it.id).collect()
}

fn delete_some(driver: &Driver, kind: &str, count: u32, random: &mut Random) -> String {
    let Ok(resource) = resource(kind) else { return String::new() };
    let api = driver.world().api();
    let names = api.list(&resource, &ListOptions::default()).map(|list| list.items).unwrap_or_default();
    let names = names.iter().filter(|object| !is_of_other(&resource, object));
    let present = names.filter(|object| object.pointer("/metadata/deletionTimestamp").is_none());
    let names = present.filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect();
    let chosen = some_of(names, count, random);
    let gone = |name: &String| api.delete(&resource, "", name, &DeleteOptions::default()).is_ok();
    let deleted: Vec<String> = chosen.into_iter().filter(gone).collect();
    format!("{kind} deleted by a person: {}", listed(&deleted))
}

/// The minimum time between two steps.
pub(crate) const MIN_STEP: SignedDuration = SignedDuration::from_millis(1);
