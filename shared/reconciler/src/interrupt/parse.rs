//! Parses EventBridge events.

use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use nodeless_model::claim::TerminationReason;
use serde_json::Value;

/// The time between EC2's warning and the end of the instance.
const WARNING: SignedDuration = SignedDuration::from_mins(2);

/// An event about instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// What happens to the instances.
    pub kind: InterruptionKind,
    /// The ids of the instances. At least one.
    pub instances: Vec<String>,
    /// When AWS's maintenance begins, if the event has that.
    pub begins: Option<Timestamp>,
}

/// What happens to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InterruptionKind {
    /// EC2 interrupts the spot instance in two minutes.
    SpotInterruption,
    /// The spot instance has an elevated risk of interruption.
    Rebalance,
    /// The instance is being stopped or was stopped.
    Stopped,
    /// The instance is being terminated.
    ShuttingDown,
    /// The instance was terminated.
    Terminated,
    /// AWS plans maintenance.
    ScheduledChange,
    /// EC2 reclaims the capacity reservation.
    CapacityReservation,
}

/// An event that nodeless does not handle. It is acknowledged, because retrying does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The event's source.
    pub source: String,
    /// The event's detail-type.
    pub detail_type: String,
    /// Why it is not handled.
    pub why: String,
}

/// Why a text is not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseInterruptionError {
    /// The message is not JSON.
    #[error("the message is not JSON: {0}; only EventBridge may send to this queue")]
    Json(String),
    /// A field is missing or has the wrong type.
    #[error("the event's field {field} {problem}; only EventBridge may send to this queue")]
    Field {
        /// The field's path.
        field: String,
        /// What is wrong with the field.
        problem: &'static str,
    },
}

impl InterruptionKind {
    /// Whether the instance ends. A rebalance recommendation does not end it.
    #[must_use]
    pub const fn takes_the_instance(self) -> bool {
        !matches!(self, Self::Rebalance)
    }

    /// Whether the instance ends within minutes, so that the event is handled first.
    #[must_use]
    pub const fn is_urgent(self) -> bool {
        matches!(self, Self::SpotInterruption | Self::CapacityReservation)
    }

    /// When the instance ends, if that is known. `begins` is when maintenance begins.
    #[must_use]
    pub fn end(self, begins: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Rebalance => None,
            Self::ScheduledChange => begins,
            // Two minutes after the warning.
            Self::SpotInterruption | Self::CapacityReservation => now.checked_add(WARNING).ok(),
            Self::Stopped | Self::ShuttingDown | Self::Terminated => Some(now),
        }
    }

    /// The reason of the claim's termination.
    #[must_use]
    pub const fn termination(self) -> TerminationReason {
        TerminationReason::Interrupted
    }

    /// The reason of the Kubernetes event, as Karpenter names it.
    #[must_use]
    pub const fn event_reason(self) -> &'static str {
        match self {
            Self::SpotInterruption => "SpotInterrupted",
            Self::Rebalance => "SpotRebalanceRecommendation",
            Self::Stopped => "InstanceStopping",
            Self::ShuttingDown | Self::Terminated => "InstanceTerminating",
            Self::ScheduledChange => "InstanceUnhealthy",
            Self::CapacityReservation => "CapacityReservationInstanceInterrupted",
        }
    }

    /// The message of the Kubernetes event.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::SpotInterruption => "EC2 interrupts the spot instance",
            Self::Rebalance => "EC2 recommends rebalancing the spot instance",
            Self::Stopped => "the instance is stopping",
            Self::ShuttingDown | Self::Terminated => "the instance is terminating",
            Self::ScheduledChange => "AWS scheduled maintenance for the instance",
            Self::CapacityReservation => "EC2 reclaims the instance's capacity reservation",
        }
    }
}

/// Parses an event. The inner error explains why a well-formed event is ignored.
///
/// # Errors
/// If the text is not JSON, or a required field of the kind of event is missing.
pub fn parse(text: &str) -> Result<Result<Interruption, Ignored>, ParseInterruptionError> {
    let event: Value = serde_json::from_str(text).map_err(|error| ParseInterruptionError::Json(error.to_string()))?;
    let source = string(&event, "/source")?;
    let detail_type = string(&event, "/detail-type")?;
    let ignored = |why: &str| {
        Ok(Err(Ignored { source: source.to_owned(), detail_type: detail_type.to_owned(), why: why.to_owned() }))
    };
    let one = |kind| {
        let instances = vec![instance_id(&event, "/detail/instance-id")?];
        Ok(Ok(Interruption { kind, instances, begins: None }))
    };
    match (source, detail_type) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => one(InterruptionKind::SpotInterruption),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => one(InterruptionKind::Rebalance),
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            one(InterruptionKind::CapacityReservation)
        }
        ("aws.ec2", "EC2 Instance State-change Notification") => match string(&event, "/detail/state")? {
            "stopping" | "stopped" => one(InterruptionKind::Stopped),
            "shutting-down" => one(InterruptionKind::ShuttingDown),
            "terminated" => one(InterruptionKind::Terminated),
            _ => ignored("an instance that is starting needs nothing"),
        },
        ("aws.health", "AWS Health Event") => {
            if string(&event, "/detail/service")? != "EC2" {
                return ignored("it is about another service than EC2");
            }
            if string(&event, "/detail/eventTypeCategory")? != "scheduledChange" {
                return ignored("it is not a scheduled change");
            }
            let instances = affected(&event)?;
            if instances.is_empty() {
                return ignored("it names no instance");
            }
            // A time of another form is like none: the node is drained in any case.
            let begins = event.pointer("/detail/startTime").and_then(Value::as_str);
            let begins = begins.and_then(|at| rfc2822::parse(at).ok()).map(|at| at.timestamp());
            Ok(Ok(Interruption { kind: InterruptionKind::ScheduledChange, instances, begins }))
        }
        _ => ignored("this kind of event is unknown"),
    }
}

/// The instances among the affected entities of a Health event, which may be absent.
fn affected(event: &Value) -> Result<Vec<String>, ParseInterruptionError> {
    let entities = match event.pointer("/detail/affectedEntities") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(entities) => entities.as_array().ok_or_else(|| field("/detail/affectedEntities", "is not a list"))?,
    };
    // EC2 entities may also be volumes, hosts and so on, and some have no value.
    let values = entities.iter().filter_map(|entity| entity.get("entityValue")?.as_str());
    Ok(values.filter(|value| value.starts_with("i-")).map(str::to_owned).collect())
}

fn string<'a>(event: &'a Value, path: &str) -> Result<&'a str, ParseInterruptionError> {
    match event.pointer(path) {
        None => Err(field(path, "is missing")),
        Some(value) => value.as_str().ok_or_else(|| field(path, "is not a string")),
    }
}

fn instance_id(event: &Value, path: &str) -> Result<String, ParseInterruptionError> {
    let id = string(event, path)?;
    if id.starts_with("i-") { Ok(id.to_owned()) } else { Err(field(path, "is not an instance id")) }
}

fn field(path: &str, problem: &'static str) -> ParseInterruptionError {
    ParseInterruptionError::Field { field: path.trim_start_matches('/').replace('/', "."), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[allow(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
    fn event(source: &str, detail_type: &str, detail: Value) -> String {
        json!({ "version": "0", "source": source, "detail-type": detail_type, "detail": detail }).to_string()
    }

    #[test]
    fn knows_every_kind() {
        use InterruptionKind::{
            CapacityReservation, Rebalance, ScheduledChange, ShuttingDown, SpotInterruption, Stopped, Terminated,
        };
        let instance = json!({ "instance-id": "i-1" });
        let state = |state: &str| json!({ "instance-id": "i-1", "state": state });
        let change = "EC2 Instance State-change Notification";
        let health = json!({ "service": "EC2", "eventTypeCategory": "scheduledChange", "startTime": "Sat, 05 Jun 2027 15:10:09 GMT",
            "affectedEntities": [{ "entityArn": "arn" }, { "entityValue": "i-1" }, { "entityValue": "vol-1" }] });
        for (kind, text) in [
            (SpotInterruption, event("aws.ec2", "EC2 Spot Instance Interruption Warning", instance.clone())),
            (Rebalance, event("aws.ec2", "EC2 Instance Rebalance Recommendation", instance.clone())),
            (CapacityReservation, event("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", instance)),
            (Stopped, event("aws.ec2", change, state("stopping"))),
            (Stopped, event("aws.ec2", change, state("stopped"))),
            (ShuttingDown, event("aws.ec2", change, state("shutting-down"))),
            (Terminated, event("aws.ec2", change, state("terminated"))),
            (ScheduledChange, event("aws.health", "AWS Health Event", health)),
        ] {
            let begins = (kind == ScheduledChange).then(|| "2027-06-05T15:10:09Z".parse().unwrap());
            assert_eq!(parse(&text), Ok(Ok(Interruption { kind, instances: vec!["i-1".into()], begins })), "{text}");
        }
    }

    #[test]
    fn what_is_not_for_us_is_acknowledged() {
        let running = json!({ "instance-id": "i-1", "state": "running" });
        let other = json!({ "service": "RDS", "eventTypeCategory": "scheduledChange", "affectedEntities": [] });
        let issue = json!({ "service": "EC2", "eventTypeCategory": "issue", "affectedEntities": [] });
        let volumes = json!({ "service": "EC2", "eventTypeCategory": "scheduledChange",
            "affectedEntities": [{ "entityValue": "vol-1" }] });
        let bare = json!({ "service": "EC2", "eventTypeCategory": "scheduledChange" });
        for (text, why) in [
            (event("aws.ec2", "EC2 Instance State-change Notification", running), "starting"),
            (event("aws.health", "AWS Health Event", bare), "names no instance"),
            (event("aws.health", "AWS Health Event", other), "another service"),
            (event("aws.health", "AWS Health Event", issue), "not a scheduled change"),
            (event("aws.health", "AWS Health Event", volumes), "names no instance"),
            (event("aws.s3", "Object Created", json!({})), "is unknown"),
        ] {
            let ignored = parse(&text).unwrap().unwrap_err();
            assert!(ignored.why.contains(why), "{ignored:?}");
        }
    }

    #[test]
    fn a_malformed_event_names_its_field() {
        let warning = "EC2 Spot Instance Interruption Warning";
        for (text, expected) in [
            ("{".to_owned(), "not JSON"),
            ("[]".to_owned(), "field source is missing"),
            (event("aws.ec2", warning, json!({})), "field detail.instance-id is missing"),
            (event("aws.ec2", warning, json!({ "instance-id": 7 })), "field detail.instance-id is not a string"),
            (
                event("aws.ec2", warning, json!({ "instance-id": "x" })),
                "field detail.instance-id is not an instance id",
            ),
            (event("aws.ec2", "EC2 Instance State-change Notification", json!({})), "field detail.state is missing"),
            (
                event(
                    "aws.health",
                    "AWS Health Event",
                    json!({ "service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": "i-1" }),
                ),
                "field detail.affectedEntities is not a list",
            ),
        ] {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
