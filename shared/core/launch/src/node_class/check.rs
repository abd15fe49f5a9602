//! The validation of an EC2NodeClass by EC2 dry runs: when to make them, and the conditions of the class that result from them.
//!
//! The catalog function resolves a class and may not launch. The lifecycle function launches, so it makes the dry runs, with the
//! permissions of a launch. The result is stored for each class, with a key of everything that it depends on.

use crate::fleet::FleetError;
use crate::shortage::lacks_capacity;
use jiff::{SignedDuration, Timestamp};
use nodeless_api::hash::resolved_fields;
use nodeless_api::nodeclass::{Ami, EC2NodeClassSpec};
use nodeless_api::{Condition, ConditionStatus, EC2NodeClass, EC2NodeClassStatus};
use nodeless_model::launch_check::{LaunchAnswer, LaunchCheck, Refusal};
use nodeless_model::{ErrorKind, PortError, labels};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

const VALIDATION: &str = "ValidationSucceeded";
const READY: &str = "Ready";
const PROFILE_NOT_FOUND: &str = "InstanceProfileNotFound";
const REFUSED: &str = "RequestRefused";
const AMI_NOT_FOUND: &str = "AMINotFound";
/// The reason of a rejection without a permission or a field of the class: its cause may be the requested instance type, or
/// the dry run. [`checked`] evaluates it, and it is never stored.
const UNCLEAR: &str = "RequestUnclear";
/// The reason of a rejection of all launches of the account, whatever the class: AWS has not verified the account yet, or it has not
/// subscribed to EC2 or to a region. It passes without a change of the class, so it is never stored.
const ACCOUNT: &str = "AccountNotReady";
/// EC2's error codes for these:
/// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
const OF_THE_ACCOUNT: [&str; 2] = ["OptInRequired", "PendingVerification"];
const EVALUATION_FAILED: &str = "KubeletExpressionEvaluationFailed";
const RUN_INSTANCES_DENIED: &str = "RunInstancesAuthCheckFailed";
/// The prefixes of EC2's error codes for fields of the class:
/// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
const OF_THE_CLASS: [&str; 12] = [
    "InvalidAMIID.",
    "InvalidAMIName.",
    "InvalidBlockDeviceMapping",
    "InvalidCapacityReservation",
    "InvalidGroup.",
    "InvalidKMSKey.",
    "InvalidPlacementGroup.",
    "InvalidSecurityGroup",
    "InvalidSnapshot",
    "InvalidSubnet",
    "InvalidUserData.",
    "InvalidVolumeType",
];
/// The reasons of ValidationSucceeded that result from dry runs. All other reasons are found without EC2.
const REASONS: [&str; 6] = [
    "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleetAuthCheckFailed",
    RUN_INSTANCES_DENIED,
    PROFILE_NOT_FOUND,
    REFUSED,
    AMI_NOT_FOUND,
];
/// How long a successful dry run is valid, as in Karpenter.
const ACCEPTED_FOR: SignedDuration = SignedDuration::from_mins(30);
/// How long a rejection is valid, and a result with a problem that is not the class's. It is shorter, so that a user who grants a missing permission does not wait for half an hour.
const REFUSED_FOR: SignedDuration = SignedDuration::from_mins(5);
/// The minimum time between two dry runs: by then a new instance profile is visible in all of EC2, and throttling has ended.
pub const PAUSE: SignedDuration = SignedDuration::from_secs(20);
/// The maximum length of the message of a rejection, in characters. EC2 adds a kilobyte of encoded details to missing
/// permissions.
const MESSAGE_LENGTH: usize = 400;

/// The time of a result that a rejected launch has contradicted.
const UNCONFIRMED: Timestamp = Timestamp::MIN;

/// The calls that a launch makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// CreateLaunchTemplate.
    CreateLaunchTemplate,
    /// CreateFleet.
    CreateFleet,
    /// RunInstances, which CreateFleet calls with the permissions of its caller.
    RunInstances,
}

/// The rejection in the error of a call or of its dry run; `None` if EC2 would have accepted it.
///
/// # Errors
/// The error, if a retry may succeed: the result is then unknown.
pub fn refusal(call: Call, error: PortError) -> Result<Option<Refusal>, PortError> {
    // A lack of capacity is temporary, and a successful dry run is an error too.
    if error.code == "DryRunOperation" || lacks_capacity(&error.code) {
        return Ok(None);
    }
    if error.is_retryable() {
        return Err(error);
    }
    let reason = match call {
        _ if OF_THE_ACCOUNT.contains(&error.code.as_str()) => ACCOUNT,
        _ if error.kind != ErrorKind::Denied && error.message.contains("iamInstanceProfile") => PROFILE_NOT_FOUND,
        _ if error.kind != ErrorKind::Denied && OF_THE_CLASS.iter().any(|of| error.code.starts_with(of)) => REFUSED,
        _ if error.kind != ErrorKind::Denied => UNCLEAR,
        Call::CreateLaunchTemplate => REASONS[0],
        Call::CreateFleet => REASONS[1],
        Call::RunInstances => RUN_INSTANCES_DENIED,
    };
    let message = error.to_string().chars().take(MESSAGE_LENGTH).collect();
    Ok(Some(Refusal { reason: reason.to_owned(), message }))
}

/// The rejection if no AMI of the class supports any instance type that its NodePools allow, so that no dry run is possible.
#[must_use]
pub fn no_image(error: &FleetError) -> Refusal {
    Refusal { reason: AMI_NOT_FOUND.to_owned(), message: error.to_string() }
}

#[derive(Serialize)]
struct Subject<'a> {
    spec: &'a EC2NodeClassSpec,
    annotations: BTreeMap<&'a str, &'a str>,
    subnets: Vec<&'a str>,
    security_groups: Vec<&'a str>,
    amis: &'a [Ami],
    instance_profile: Option<&'a str>,
}

/// The key of a dry run: a hash of everything that its result depends on, and of the annotations, so that changing any of them
/// repeats the dry run, as in Karpenter.
#[must_use]
pub fn key(class: &EC2NodeClass, status: &EC2NodeClassStatus) -> String {
    let ours = [labels::EC2_NODE_CLASS_HASH, labels::EC2_NODE_CLASS_HASH_VERSION];
    let annotations = class.metadata.annotations.iter().flatten();
    let mut subject = Subject {
        spec: &class.spec,
        annotations: annotations
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .filter(|(key, _)| !ours.contains(key))
            .collect(),
        subnets: status.subnets.iter().map(|subnet| subnet.id.as_str()).collect(),
        security_groups: status.security_groups.iter().map(|group| group.id.as_str()).collect(),
        amis: &status.amis,
        instance_profile: status.instance_profile.as_deref(),
    };
    // Subnets are ordered by free addresses, which must not change the key.
    subject.subnets.sort_unstable();
    subject.security_groups.sort_unstable();
    // Plain data can always be serialized; otherwise the key would still be deterministic.
    let text = serde_json::to_vec(&subject).unwrap_or_default();
    let hash = Sha256::digest(&text).iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{hash:016x}")
}

/// Whether a dry run is possible: everything that the class selects was found, and it has no other problem.
#[must_use]
pub fn can_be_checked(status: &EC2NodeClassStatus) -> bool {
    let good = |condition: &Condition| match condition.type_.as_str() {
        READY => true,
        VALIDATION => condition.status != ConditionStatus::False || REASONS.contains(&condition.reason.as_str()),
        _ => condition.status == ConditionStatus::True,
    };
    find(status, VALIDATION).is_some() && status.conditions.iter().all(good)
}

/// Whether a dry run should be made now.
#[must_use]
pub fn is_due(check: Option<&LaunchCheck>, key: &str, now: Timestamp) -> bool {
    let Some(check) = check else { return true };
    if check.asked == key && now.duration_since(check.asked_at) < PAUSE {
        return false;
    }
    let Some(answer) = check.answer.as_ref().filter(|answer| answer.key == key) else { return true };
    let holds = match &answer.refusal {
        None if check.problem.is_some() => REFUSED_FOR,
        None => ACCEPTED_FOR,
        Some(refusal) if refusal.reason == PROFILE_NOT_FOUND => PAUSE,
        Some(_) => REFUSED_FOR,
    };
    now.duration_since(answer.at) >= holds
}

/// The record after a dry run. If EC2 did not answer, the last result is kept.
///
/// A rejection without a permission or a field of the class does not make the class unready, as in Karpenter, unless a launch was
/// rejected too ([`to_be_confirmed`]); `outcome` is then the result of all NodePools of the class. A rejection because of the account
/// never does.
#[must_use]
pub fn checked(
    before: Option<LaunchCheck>,
    node_class: &str,
    key: &str,
    outcome: &Result<Option<Refusal>, PortError>,
    now: Timestamp,
) -> LaunchCheck {
    let mut problem = outcome.as_ref().err().map(ToString::to_string);
    let answer = match outcome {
        Ok(refusal) => {
            let mut refusal = refusal.clone();
            if let Some(unclear) = refusal.as_mut().filter(|refusal| is_unclear(refusal)) {
                if unclear.reason == UNCLEAR && before.is_some_and(|before| needs_confirmation(&before)) {
                    REFUSED.clone_into(&mut unclear.reason);
                } else {
                    problem = refusal.take().map(|unclear| unclear.message);
                }
            }
            Some(LaunchAnswer { key: key.to_owned(), at: now, refusal })
        }
        Err(_) => before.and_then(|before| before.answer),
    };
    LaunchCheck { node_class: node_class.to_owned(), asked: key.to_owned(), asked_at: now, problem, answer }
}

/// Whether this rejection may be about the requested instance type, the dry run or the account, and not about the class.
#[must_use]
pub fn is_unclear(refusal: &Refusal) -> bool {
    refusal.reason == UNCLEAR || refusal.reason == ACCOUNT
}

/// Whether EC2 may accept the same launch with another instance type: service control policies deny instance types, and EC2 does not
/// report for which resource a permission is missing.
#[must_use]
pub fn may_depend_on_instance_type(refusal: &Refusal) -> bool {
    refusal.reason == RUN_INSTANCES_DENIED
}

/// Whether a launch was rejected since the last dry run.
#[must_use]
pub fn needs_confirmation(check: &LaunchCheck) -> bool {
    check.answer.as_ref().is_some_and(|answer| answer.at == UNCONFIRMED)
}

/// The record after a rejected launch: the dry run is repeated, whatever its result was.
#[must_use]
pub fn to_be_confirmed(check: LaunchCheck) -> LaunchCheck {
    let answer = check.answer.map(|answer| LaunchAnswer {
        // A dry run is due, and this result is valid until then.
        at: UNCONFIRMED,
        ..answer
    });
    LaunchCheck { answer, ..check }
}

/// Whether the present spec of a class resolves to what its status contains: nothing that has to be resolved has changed since then.
#[must_use]
pub fn resolves_to_its_status(class: &EC2NodeClass) -> bool {
    let resolved = class.status.as_ref().and_then(|status| status.resolved_hash.as_ref());
    resolved.is_some_and(|hash| *hash == resolved_fields(&class.spec))
}

/// The state of the validation, from the last result and the current status of the class.
enum Verdict<'a> {
    Launchable,
    Refused(&'a Refusal),
    /// The current condition of the class is kept.
    AsBefore(&'a Condition),
    Open(String),
}

fn verdict<'a>(class: &'a EC2NodeClass, check: Option<&'a LaunchCheck>, key: &str) -> Verdict<'a> {
    let of = |answer: &'a LaunchAnswer| answer.refusal.as_ref().map_or(Verdict::Launchable, Verdict::Refused);
    let answer = check.and_then(|check| check.answer.as_ref());
    if let Some(answer) = answer.filter(|answer| answer.key == key) {
        return of(answer);
    }
    if let Some(problem) = check.filter(|check| check.asked == key).and_then(|check| check.problem.as_ref()) {
        // A dry run that failed for another reason does not make a class unready.
        let open = || Verdict::Open(format!("the EC2 dry runs have not finished yet: {problem}"));
        return answer.map_or_else(open, of);
    }
    // After a change of an image or a subnet, or of a part of the spec that launches take as it is, the class stays ready until the
    // next dry run.
    let present = class.status.as_ref().and_then(|status| find(status, VALIDATION));
    let present = present.filter(|condition| {
        let same_spec = condition.observed_generation == class.metadata.generation;
        match condition.status {
            ConditionStatus::True => same_spec || resolves_to_its_status(class),
            _ => same_spec && REASONS.contains(&condition.reason.as_str()),
        }
    });
    let open = || Verdict::Open("waiting for the EC2 dry runs".to_owned());
    present.map_or_else(open, Verdict::AsBefore)
}

/// The status with the conditions ValidationSucceeded and Ready of the last result. If the class has another problem, the
/// status is not changed.
#[must_use]
pub fn apply(
    class: &EC2NodeClass,
    status: EC2NodeClassStatus,
    check: Option<&LaunchCheck>,
    now: Timestamp,
) -> EC2NodeClassStatus {
    if !can_be_checked(&status) {
        return status;
    }
    let verdict = verdict(class, check, &key(class, &status));
    with_verdict(class, status, verdict, now)
}

/// The status without dry runs: a class without other problems is ready.
#[must_use]
pub fn without_check(class: &EC2NodeClass, status: EC2NodeClassStatus, now: Timestamp) -> EC2NodeClassStatus {
    if can_be_checked(&status) { with_verdict(class, status, Verdict::Launchable, now) } else { status }
}

/// The status if an expression of the kubelet's configuration has no usable value for an instance type of the region. If the class
/// has another problem, the status is not changed.
#[must_use]
pub fn without_values(
    class: &EC2NodeClass,
    status: EC2NodeClassStatus,
    why: String,
    now: Timestamp,
) -> EC2NodeClassStatus {
    if !can_be_checked(&status) {
        return status;
    }
    let refusal = Refusal { reason: EVALUATION_FAILED.to_owned(), message: why };
    with_verdict(class, status, Verdict::Refused(&refusal), now)
}

fn with_verdict(
    class: &EC2NodeClass,
    mut status: EC2NodeClassStatus,
    verdict: Verdict<'_>,
    now: Timestamp,
) -> EC2NodeClassStatus {
    let (known, reason, message) = match verdict {
        Verdict::Launchable => (ConditionStatus::True, VALIDATION.to_owned(), String::new()),
        Verdict::Refused(refusal) => (ConditionStatus::False, refusal.reason.clone(), refusal.message.clone()),
        Verdict::AsBefore(condition) => (condition.status, condition.reason.clone(), condition.message.clone()),
        Verdict::Open(why) => (ConditionStatus::Unknown, "AwaitingDryRun".to_owned(), why),
    };
    let ready = match known {
        ConditionStatus::True => (READY, String::new()),
        ConditionStatus::False => ("UnhealthyDependents", format!("{VALIDATION}=False")),
        ConditionStatus::Unknown => ("ReconcilingDependents", format!("{VALIDATION}=Unknown")),
    };
    let ready = (READY, ready.0.to_owned(), ready.1);
    for (kind, reason, message) in [(VALIDATION, reason, message), ready] {
        let before = class.status.as_ref().and_then(|status| find(status, kind));
        let since = before.filter(|condition| condition.status == known);
        let since = since.map_or_else(|| now.into(), |condition| condition.last_transition_time.clone());
        for condition in status.conditions.iter_mut().filter(|condition| condition.type_ == kind) {
            condition.status = known;
            condition.reason.clone_from(&reason);
            condition.message.clone_from(&message);
            condition.last_transition_time = since.clone();
        }
    }
    status
}

fn find<'a>(status: &'a EC2NodeClassStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests;
