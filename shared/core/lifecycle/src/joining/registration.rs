//! The steps from Launched through Registered to Initialized, and the maintenance after that.

use crate::begin_termination::leave;
use crate::consistency::set_consistent;
use crate::daemon_sets::{is_closed, not_ready_text};
use crate::effect::{Effect, Step};
use crate::observation::{Observation, Seen};
use crate::opening::{AGAIN, Nominations};
use crate::settings::Settings;
use crate::time::{elapsed, poll_delay};
use jiff::Timestamp;
use nodeless_model::claim::{TerminationReason, condition};
use nodeless_model::events::unregistered_taint_missing;
use nodeless_model::object::{MirroredClaim, NodePatch};
use nodeless_model::resources::may_be_devices;
use nodeless_model::{ConditionStatus, Instance, Node, NodeClaim, Phase, Requirement, StringMap, Taint, labels};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

/// No node joins earlier after the launch of its instance: the kernel, the network and the kubelet take longer to start.
const JOINS_AFTER: Duration = Duration::from_secs(10);
/// How long a joining node is looked up often: a node usually takes half a minute, and with large images two.
const JOINING: Duration = Duration::from_mins(3);
/// The interval of these lookups: including the duration of a run, a node is initialized within two seconds of being ready.
const JOINING_POLL: Duration = Duration::from_secs(1);

/// The maximum time between two looks while thousands of nodes join.
const JOINING_POLL_OF_MANY: Duration = Duration::from_secs(30);
/// The number of nodes of one page of a list of the API server, and of claims that are reconciled together.
const PAGE: usize = 500;
const TOGETHER: usize = 256;
/// The maximum number of pages of nodes that all lookups of joining nodes read each second.
const PAGES_A_SECOND: usize = 20;

/// How long after the registration of a node its NodeClaim object shows it at the latest. Most nodes are initialized within that time, and
/// the object then gets both conditions, with their times, by one write.
const SHOWN_WITHIN: Duration = Duration::from_secs(15);

/// How long a node that waits for DaemonSets or devices is looked up often, and the maximum time between two looks: its pods start only after
/// the look that finds the DaemonSets ready.
const WAITING: Duration = Duration::from_mins(15);
const WAITING_POLLS: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(10);
/// The maximum number of nodes whose pods or devices are listed each second, to find out whether DaemonSets are ready and devices are
/// published there.
const NODES_LISTED_A_SECOND: usize = 100;

/// When a joining node is looked up next.
///
/// Each look lists all nodes that join, because a list cannot be selected by instance. Claims of other shards look for theirs with
/// lists of their own, so the reads grow with the square of the number of nodes: up to 1,000 are listed every second, 5,000 every ten.
fn joining_delay(claim: &NodeClaim, seen: &Observation, now: Timestamp) -> Duration {
    let since = claim.status.instance.as_ref().map_or(claim.created, |instance| instance.launched);
    let lasting = elapsed(since, now);
    let one = match lasting {
        _ if claim.phase == Phase::Launched && lasting < JOINS_AFTER => (JOINS_AFTER - lasting).max(JOINING_POLL),
        _ if lasting < JOINING => JOINING_POLL,
        _ => poll_delay(lasting, JOINING_POLL, Duration::from_mins(1)),
    };
    let pages = seen.joining_listed.div_ceil(PAGE) * seen.joining_listed.div_ceil(TOGETHER);
    let seconds = u64::try_from(pages.div_ceil(PAGES_A_SECOND)).unwrap_or(u64::MAX);
    one.max(Duration::from_secs(seconds).min(JOINING_POLL_OF_MANY))
}

/// When a node is looked up next that waits for DaemonSets or devices: each look lists its pods or its devices.
fn waiting_delay(claim: &NodeClaim, seen: &Observation, now: Timestamp) -> Duration {
    let joining = joining_delay(claim, seen, now);
    let (shortest, longest) = WAITING_POLLS.into_inner();
    let one = if elapsed(claim.created, now) < WAITING { joining.clamp(shortest, longest) } else { joining };
    let seconds = u64::try_from(seen.joining_listed / NODES_LISTED_A_SECOND).unwrap_or(u64::MAX);
    one.max(Duration::from_secs(seconds).min(JOINING_POLL_OF_MANY))
}

/// A claim whose node has not joined yet.
pub(crate) fn launched(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> Step {
    let mut step = Step::stay(claim);
    if let Some(partition) = reported_partition(claim, seen) {
        step.claim.status.awaits_partition = false;
        step.claim.status.labels.insert(labels::PLACEMENT_GROUP_PARTITION.to_owned(), partition.to_string());
        return step.again();
    }
    let delay = joining_delay(claim, seen, now);
    let nodes = match &seen.nodes {
        Seen::Known(nodes) => nodes,
        Seen::Unknown(why) => return step.wait_for("its node", why, delay),
    };
    if let [node] = nodes.as_slice()
        && is_recognised(node)
    {
        return register(step, node, seen, now);
    }
    let since = claim.condition(condition::REGISTERED).map_or(claim.created, |present| present.last_transition_time);
    if elapsed(since, now) >= settings.registration_timeout {
        return leave(claim, seen, TerminationReason::RegistrationTimeout, "its node did not join in time", now);
    }
    match nodes.as_slice() {
        [] => {
            step.claim.set_condition(
                condition::REGISTERED,
                ConditionStatus::Unknown,
                "NodeNotFound",
                "Node not found",
                since,
            );
            step.after(delay)
        }
        [node] => match &seen.mirror {
            Seen::Unknown(why) => step.wait_for("its NodeClaim object", why, delay),
            Seen::Known(None) => {
                step.effects.push(Effect::MirrorClaim);
                step.again()
            }
            // A pod that is spread over partitions must not run on a node without the label of its partition.
            Seen::Known(Some(_)) if claim.status.awaits_partition => {
                let message = "EC2 has not reported the partition of its instance yet";
                step.claim.set_condition(
                    condition::REGISTERED,
                    ConditionStatus::Unknown,
                    "PartitionUnknown",
                    message,
                    since,
                );
                step.after(delay)
            }
            Seen::Known(Some(mirror)) => recognise(step, node, mirror, seen, settings).again(),
        },
        several => {
            let names: Vec<&str> = several.iter().map(|node| node.name.as_str()).collect();
            let message = format!("several Nodes have its provider id: {}", names.join(", "));
            // The timeout counts from when the node was first looked up.
            step.claim.set_condition(
                condition::REGISTERED,
                ConditionStatus::False,
                "MultipleNodesFound",
                &message,
                since,
            );
            step.after(delay)
        }
    }
}

/// The partition of a placement group that EC2 chose for the instance of a claim, once EC2 reports it.
fn reported_partition(claim: &NodeClaim, seen: &Observation) -> Option<u32> {
    let instance = seen.instance.known().and_then(Option::as_ref).filter(|_| claim.status.awaits_partition)?;
    instance.partition
}

/// Whether a node is registered: it has the label and the finalizer, and not the taint of unregistered nodes.
fn is_recognised(node: &Node) -> bool {
    node.is_registered()
        && !node.has_taint(&Taint::unregistered())
        && node.finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER)
}

/// The claim of a recognised node. If the node is initialized too, the claim is written once for both.
fn register(mut step: Step, node: &Node, seen: &Observation, now: Timestamp) -> Step {
    let claim = &mut step.claim;
    claim.phase = if claim.is_warm() { Phase::Preparing } else { Phase::Registered };
    claim.status.node_name = Some(node.name.clone());
    // If a plan's snapshot does not contain the Node yet, the claim represents it.
    for (resource, quantity) in node.allocatable.iter().filter(|(_, quantity)| !quantity.is_zero()) {
        claim.status.allocatable.set(resource, quantity);
    }
    claim.status.last_pod_event.get_or_insert(now);
    claim.set_condition(condition::REGISTERED, ConditionStatus::True, "Registered", "", now);
    if node.is_initialized() {
        return initialise(step, node, seen, now);
    }
    let missing = not_initialised_because(claim, node, seen);
    let (reason, message) = missing.unwrap_or_else(|| ("NodeNotReady", "Node not ready".to_owned()));
    claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, reason, &message, now);
    step.again()
}

/// The claim of an initialized node.
fn initialise(mut step: Step, node: &Node, seen: &Observation, now: Timestamp) -> Step {
    step.claim.phase = Phase::Initialized;
    step.claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", now);
    keep_launched_type(&mut step.claim);
    set_consistent(&mut step.claim, node, now);
    if !step.claim.spec.replaces.is_empty() {
        // A command waits for it before it drains the nodes that this one replaces.
        step.effects.push(Effect::WakePlanner);
    }
    if seen.nominations == Nominations::Written { step.after(AGAIN) } else { step }
}

/// Of the instance types that might have been launched, the claim of a node that is ready keeps the one that was: each plan and each sweep
/// reads all claims, and the others are half of a record.
fn keep_launched_type(claim: &mut NodeClaim) {
    let Some(launched) = &claim.status.instance else { return };
    let launched = vec![launched.instance_type.clone()];
    claim.spec.requirements.remove(labels::INSTANCE_TYPE);
    claim.spec.requirements.add(labels::INSTANCE_TYPE, Requirement::one_of(launched.clone()));
    claim.spec.instance_types = launched;
}

/// Registers a node: it gets the claim's labels, annotations and taints, the finalizer and the owner. A node that lacks nothing else
/// is initialized by the same patch, and its instance is tagged, so that the claim is written once for all three.
///
/// The name of the node is written before the patch: once the node has the label of initialized nodes, only its name finds it.
fn recognise(mut step: Step, node: &Node, mirror: &MirroredClaim, seen: &Observation, settings: &Settings) -> Step {
    step.claim.status.node_name = Some(node.name.clone());
    let unregistered = Taint::unregistered();
    if !node.is_registered() && !node.has_taint(&unregistered) {
        step.events.push(unregistered_taint_missing(node));
    }
    let claim = &step.claim;
    let mut desired = claim.node_labels();
    desired.insert(labels::REGISTERED.to_owned(), "true".to_owned());
    let kubelet_sets_taints = node.has_label(labels::DO_NOT_SYNC_TAINTS, "true");
    let taints = claim.spec.taints.iter().chain(&claim.spec.startup_taints);
    let mut patch = NodePatch {
        labels: desired,
        annotations: annotations(claim),
        add_taints: taints.filter(|taint| !kubelet_sets_taints && !node.has_taint(taint)).cloned().collect(),
        remove_taints: vec![unregistered],
        add_finalizer: Some(labels::TERMINATION_FINALIZER.to_owned()),
        owner: Some((mirror.name.clone(), mirror.uid.clone())),
        // The pods of DaemonSets tolerate that, and others do not.
        unschedulable: claim.is_warm().then_some(true),
        // Two processes may reconcile a claim. After the other one has registered the node, it may have opened it, and agents may have removed
        // startup taints.
        unless_labelled: (!node.is_registered()).then(|| labels::REGISTERED.to_owned()),
        ..NodePatch::default()
    };
    // A node that waits for DaemonSets is closed already, by a taint that these tolerate.
    if seen.nominations == Nominations::Awaited && !is_closed(claim) {
        patch.add_taints.push(Taint::joining());
    }
    let mut registered = node.clone();
    patch.apply(&mut registered);
    let lacks_nothing = !claim.is_warm() && not_initialised_because(claim, &registered, seen).is_none();
    if lacks_nothing {
        patch.labels.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
    }
    step.effects.push(Effect::patch_node(node, patch));
    if lacks_nothing {
        tag_as(&mut step, Some(&node.name), seen, settings);
    }
    step
}

/// The step of a claim that has registered a Node before, if that was created again since: a Node gets the label and the finalizer
/// together, and the kubelet sets neither. The record is older than the Node if the claims table was restored to a time before the instance was
/// stopped and started, or if another party removed the finalizer of the Node and deleted it.
pub(crate) fn registered_again(claim: &NodeClaim, seen: &Observation, settings: &Settings) -> Option<Step> {
    let has_joined = matches!(claim.phase, Phase::Registered | Phase::Preparing | Phase::Initialized);
    let [node] = seen.nodes.known().filter(|_| has_joined)?.as_slice() else { return None };
    let is_held = node.finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER);
    if node.is_registered() || is_held {
        return None;
    }
    let mut step = Step::stay(claim);
    match seen.mirror.known()? {
        Some(mirror) => Some(recognise(step, node, mirror, seen, settings).again()),
        None => {
            step.effects.push(Effect::MirrorClaim);
            Some(step.again())
        }
    }
}

/// A claim whose node has joined but was not ready for pods yet.
pub(crate) fn registered(claim: &NodeClaim, seen: &Observation, now: Timestamp) -> Step {
    let mut step = Step::stay(claim);
    let delay = joining_delay(claim, seen, now);
    let nodes = match &seen.nodes {
        Seen::Known(nodes) => nodes,
        Seen::Unknown(why) => return step.wait_for("its node", why, delay),
    };
    let [node] = nodes.as_slice() else {
        let message = format!("{} Nodes have its provider id", nodes.len());
        step.claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, "NodeNotFound", &message, now);
        return step.after(delay);
    };
    if node.is_initialized() {
        return initialise(step, node, seen, now);
    }
    let mut patch = opening_patch(claim, node, seen, now);
    let mut opened = node.clone();
    patch.apply(&mut opened);
    let waits = opened.has_taint(&Taint::daemon_sets_not_ready()) && is_closed(claim);
    if let (true, Seen::Unknown(why)) = (waits, &seen.daemon_sets_not_ready) {
        return step.wait_for("its DaemonSets", why, delay);
    }
    let lacks_devices = !unreported_resources(claim, node).is_empty();
    let delay = if waits || lacks_devices { waiting_delay(claim, seen, now) } else { delay };
    let missing = not_initialised_because(claim, &opened, seen);
    if missing.is_none() {
        patch.labels.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
    }
    if patch != NodePatch::default() {
        step.effects.push(Effect::patch_node(node, patch));
        return step.again();
    }
    if let Some((reason, message)) = missing {
        step.claim.set_condition(condition::INITIALIZED, ConditionStatus::Unknown, reason, &message, now);
    }
    if is_to_be_shown(claim, seen, now) {
        step.effects.push(Effect::MirrorClaim);
    }
    match &seen.device_resources {
        Seen::Unknown(why) if lacks_devices => step.wait_for("the devices of its node", why, delay),
        _ => step.after(delay),
    }
}

/// Whether the NodeClaim object of a registered claim has not shown the registration for [`SHOWN_WITHIN`].
fn is_to_be_shown(claim: &NodeClaim, seen: &Observation, now: Timestamp) -> bool {
    let registered = claim.condition(condition::REGISTERED);
    let is_due = registered.is_some_and(|since| elapsed(since.last_transition_time, now) >= SHOWN_WITHIN);
    let mirror = seen.mirror.known().and_then(Option::as_ref);
    is_due && mirror.is_some_and(|mirror| !mirror.shows(&claim.status.conditions))
}

/// The patch that opens a node for pods, unless nominations or DaemonSets are awaited, or its reboot has failed. It is empty if the node is
/// open.
pub(crate) fn opening_patch(claim: &NodeClaim, node: &Node, seen: &Observation, now: Timestamp) -> NodePatch {
    let mut closed_by = vec![Taint::joining()];
    if is_closed(claim) && seen.daemon_sets_not_ready.known().is_some_and(BTreeSet::is_empty) {
        closed_by.push(Taint::daemon_sets_not_ready());
    }
    closed_by.retain(|_| seen.nominations != Nominations::Awaited);
    if claim.rebooting().is_none() && !claim.reboot_failed(now) {
        closed_by.push(Taint::rebooting());
    }
    closed_by.retain(|taint| node.has_taint(taint));
    NodePatch { remove_taints: closed_by, ..NodePatch::default() }
}

/// Why a node is not initialized yet, checked in Karpenter's order.
pub(crate) fn not_initialised_because(
    claim: &NodeClaim,
    node: &Node,
    seen: &Observation,
) -> Option<(&'static str, String)> {
    if !node.is_ready() {
        return Some(("NodeNotReady", "Node status is not Ready".to_owned()));
    }
    if let Some(taint) = claim.spec.startup_taints.iter().find(|taint| node.has_taint(taint)) {
        let not_ready = seen
            .daemon_sets_not_ready
            .known()
            .filter(|names| !names.is_empty() && taint.matches(&Taint::daemon_sets_not_ready()));
        let why = not_ready.map_or_else(String::new, |names| format!(": {}", not_ready_text(names)));
        return Some(("StartupTaintsExist", format!("Startup taint {taint} still exists{why}")));
    }
    if let Some(taint) = node.taints.iter().find(|taint| taint.is_ephemeral()) {
        return Some(("KnownEphemeralTaintsExist", format!("Ephemeral taint {taint} still exists")));
    }
    let is_device = |name: &str| seen.device_resources.known().is_some_and(|devices| !devices.get(name).is_zero());
    let missing = unregistered(claim, node).find(|name| !is_device(name));
    missing.map(|name| ("ResourceNotRegistered", format!("Resource {name} was requested but not registered")))
}

/// The resources that a claim requests and that the kubelet of its node does not report.
fn unregistered<'a>(claim: &'a NodeClaim, node: &Node) -> impl Iterator<Item = &'a str> {
    let requested = claim.spec.requests.iter().filter(|(_, desired)| !desired.is_zero());
    requested.map(|(name, _)| name).filter(move |name| node.allocatable.get(name).is_zero())
}

/// The extended resources that a claim requests and that the kubelet of its ready node does not report, while the node is not initialized:
/// of a driver without a device plugin, a DeviceClass gives them (KEP-5004).
#[must_use]
pub fn unreported_resources<'a>(claim: &'a NodeClaim, node: &Node) -> BTreeSet<&'a str> {
    if claim.phase.is_leaving() || !node.is_ready() || node.is_initialized() {
        return BTreeSet::new();
    }
    unregistered(claim, node).filter(|name| may_be_devices(name)).collect()
}

/// What a node shows of its claim from its registration on.
fn annotations(claim: &NodeClaim) -> StringMap {
    let authority = claim.status.instance.as_ref().and_then(|instance| instance.certificate_authority.clone());
    let authority = authority.map(|digest| (labels::CERTIFICATE_AUTHORITY.to_owned(), digest));
    claim.spec.annotations.clone().into_iter().chain(authority).collect()
}

/// The hashes of a claim, and their versions, that its node does not show.
#[must_use]
pub fn stale_hashes(claim: &NodeClaim, node: &Node) -> StringMap {
    let own = labels::HASHES.into_iter().filter_map(|key| Some((key, claim.spec.annotations.get(key)?)));
    let stale = own.filter(|(key, value)| node.annotations.get(*key) != Some(value));
    stale.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// A claim whose node is ready for pods.
pub(crate) fn initialized(claim: &NodeClaim, seen: &Observation, now: Timestamp) -> Step {
    let mut step = Step::stay(claim);
    if seen.nominations == Nominations::Written {
        step = step.after(AGAIN);
    }
    for node in seen.nodes.known().into_iter().flatten() {
        let mut open = opening_patch(claim, node, seen, now);
        if node.is_registered() && !node.is_initialized() && not_initialised_because(claim, node, seen).is_none() {
            open.labels.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
            // The next step sets the condition.
            step = step.again();
        }
        if open != NodePatch::default() {
            step.effects.push(Effect::patch_node(node, open));
        }
        if node.is_initialized() && !claim.status.reboots.is_empty() {
            step.claim.set_condition(condition::INITIALIZED, ConditionStatus::True, "Initialized", "", now);
        }
        let annotations = stale_hashes(claim, node);
        if !annotations.is_empty() {
            // The node is patched last: what it shows, its NodeClaim shows too.
            let patch = NodePatch { annotations, ..NodePatch::default() };
            step.effects.extend([Effect::MirrorClaim, Effect::patch_node(node, patch)]);
        }
        let tainted = node.has_taint(&Taint::disrupted());
        match claim.status.command {
            Some(_) if !tainted => {
                let patch = NodePatch { add_taints: vec![Taint::disrupted()], ..NodePatch::default() };
                // The command waits for the taint.
                step.effects.extend([Effect::patch_node(node, patch), Effect::MirrorClaim, Effect::WakePlanner]);
            }
            // A claim is marked as terminating, or as taken by a command, before its node is tainted. So any other taint remains
            // from a command that was rolled back, or from an unfinished disruption by Karpenter.
            None if tainted => {
                let marked = node.has_label(labels::EXCLUDE_FROM_LOAD_BALANCERS, "karpenter");
                let remove_labels =
                    marked.then(|| labels::EXCLUDE_FROM_LOAD_BALANCERS.to_owned()).into_iter().collect();
                let patch =
                    NodePatch { remove_taints: vec![Taint::disrupted()], remove_labels, ..NodePatch::default() };
                step.effects.extend([Effect::patch_node(node, patch), Effect::MirrorClaim]);
            }
            _ => {}
        }
    }
    step
}

/// Tags the instance with its node and claim, once it has a node. A `Name` tag of the user is kept.
pub(crate) fn tag(step: &mut Step, seen: &Observation, settings: &Settings) {
    let node = step.claim.status.node_name.clone();
    tag_as(step, node.as_deref(), seen, settings);
}

fn tag_as(step: &mut Step, node: Option<&str>, seen: &Observation, settings: &Settings) {
    let Some(Some(instance)) = seen.instance.known().filter(|_| seen.zonal_shift.is_none()) else { return };
    let tags = missing_tags(&step.claim, node, instance, settings);
    let is_tagged = step.effects.iter().any(|effect| matches!(effect, Effect::TagInstance { .. }));
    if !tags.is_empty() && !is_tagged {
        step.effects.push(Effect::TagInstance { id: instance.id.clone(), tags });
    }
}

fn missing_tags(claim: &NodeClaim, node: Option<&str>, instance: &Instance, settings: &Settings) -> StringMap {
    let mut desired = StringMap::from([
        (labels::NODE_CLAIM_TAG.to_owned(), claim.name.clone()),
        (labels::CLUSTER_NAME_TAG.to_owned(), settings.cluster_name.clone()),
    ]);
    if let Some(node) = node
        && !instance.tags.contains_key("Name")
    {
        desired.insert("Name".to_owned(), node.to_owned());
    }
    desired.retain(|key, value| instance.tags.get(key) != Some(value));
    desired
}
