//! An instance, and the events that its life gives.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::account::Tags;
use super::requests::LaunchTemplateData;

/// How an instance is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// On-demand.
    OnDemand,
    /// Spot.
    Spot,
}

impl CapacityType {
    /// EC2's word: `on-demand` or `spot`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}

/// What can be bought: a type in a zone in a way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offering {
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// On-demand or spot.
    pub capacity_type: CapacityType,
}

impl Offering {
    /// An offering.
    pub fn new(instance_type: &str, zone: &str, capacity_type: CapacityType) -> Self {
        Self { instance_type: instance_type.to_owned(), zone: zone.to_owned(), capacity_type }
    }
}

/// The states of an instance that is never stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceState {
    /// Starting.
    Pending,
    /// Up.
    Running,
    /// Going.
    ShuttingDown,
    /// Gone, still described for a while.
    Terminated,
}

impl InstanceState {
    /// EC2's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// EC2's number.
    pub fn code(self) -> u16 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
        }
    }

    /// EC2's word for status checks of an instance in this state that do not fail.
    pub(super) fn passing(self) -> &'static str {
        match self {
            Self::Pending => "initializing",
            Self::Running => "ok",
            Self::ShuttingDown | Self::Terminated => "not-applicable",
        }
    }

    /// Whether the instance holds capacity and costs money.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// Something that EC2 plans to do with an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    /// `instance-event-…`
    pub id: String,
    /// What, such as `instance-retirement`.
    pub code: String,
    /// In words; one that is over or was called off begins with `[Completed]` or `[Canceled]`.
    pub description: String,
    /// The earliest time at which it happens.
    pub not_before: Timestamp,
}

/// An instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// `i-…`
    pub id: String,
    /// The call that launched it: `r-…`
    pub reservation_id: String,
    /// Its place among the instances of that call.
    pub launch_index: u32,
    /// What was bought.
    pub offering: Offering,
    /// Architecture of its image.
    pub architecture: String,
    /// Zone id.
    pub zone_id: String,
    /// Image.
    pub image_id: String,
    /// Windows or nothing.
    pub platform: Option<String>,
    /// Root device.
    pub root_device: String,
    /// Subnet.
    pub subnet_id: String,
    /// VPC.
    pub vpc_id: String,
    /// Its address.
    pub private_ip: String,
    /// `ip-10-0-0-4.ec2.internal` and the like.
    pub private_dns_name: String,
    /// Its interface: `eni-…`
    pub network_interface_id: String,
    /// Its root volume: `vol-…`
    pub volume_id: String,
    /// Security groups.
    pub security_group_ids: Vec<String>,
    /// The profile's ARN and id.
    pub instance_profile: Option<(String, String)>,
    /// What the template and the call had.
    pub data: Arc<LaunchTemplateData>,
    /// The fleet that launched it.
    pub fleet_id: Option<String>,
    /// `sir-…`, for spot.
    pub spot_request_id: Option<String>,
    /// The reservation whose capacity it uses.
    pub capacity_reservation_id: Option<String>,
    /// The launching call's client token.
    pub client_token: Option<String>,
    /// Dollars an hour.
    pub price: f64,
    /// When it was launched.
    pub launched: Timestamp,
    /// From when describe calls know it.
    pub visible_from: Timestamp,
    /// From when they know its tags.
    pub tags_visible_from: Timestamp,
    /// Where it stands.
    pub state: InstanceState,
    /// When it began to go.
    pub stopped: Option<Timestamp>,
    /// Why it stands there: code and message.
    pub state_reason: Option<(String, String)>,
    /// Since when it fails its instance status check, if it does.
    pub impaired_since: Option<Timestamp>,
    /// Since when the system below it fails its status check, if it does.
    pub system_impaired_since: Option<Timestamp>,
    /// What EC2 plans to do with it.
    pub planned: Vec<PlannedEvent>,
    /// Whether its kubelet ever joins the cluster. False only by a scripted fault.
    pub joins: bool,
    /// Its tags.
    pub tags: Tags,
}

impl Instance {
    /// EC2's word for the instance status check and for that of the system below, and since when each fails.
    pub(super) fn checks(&self) -> [(&'static str, Option<Timestamp>); 2] {
        [self.impaired_since, self.system_impaired_since].map(|since| {
            let since = since.filter(|_| self.state == InstanceState::Running);
            (if since.is_some() { "impaired" } else { self.state.passing() }, since)
        })
    }
}

/// What happened since the world last asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Ec2Event {
    /// An instance is up, and its kubelet joins the cluster if `instance.joins`.
    InstanceRunning {
        /// The instance.
        instance: Box<Instance>,
    },
    /// An instance began to go: its kubelet is stopping.
    InstanceShuttingDown {
        /// The instance.
        instance: Box<Instance>,
    },
    /// An instance is gone.
    InstanceTerminated {
        /// The instance.
        instance: Box<Instance>,
    },
    /// EC2 takes a spot instance back after the warning time.
    SpotInterruption {
        /// Which one.
        instance_id: String,
        /// The EventBridge event.
        event: Value,
    },
    /// A spot instance is likelier to be interrupted than before.
    RebalanceRecommendation {
        /// Which one.
        instance_id: String,
        /// The EventBridge event.
        event: Value,
    },
    /// An instance's state changed.
    StateChange {
        /// Which one.
        instance_id: String,
        /// The EventBridge event.
        event: Value,
    },
}

impl Ec2Event {
    /// The event as EventBridge delivers it, for those that EventBridge knows.
    pub fn event_bridge(&self) -> Option<&Value> {
        match self {
            Self::SpotInterruption { event, .. }
            | Self::RebalanceRecommendation { event, .. }
            | Self::StateChange { event, .. } => Some(event),
            Self::InstanceRunning { .. } | Self::InstanceShuttingDown { .. } | Self::InstanceTerminated { .. } => None,
        }
    }
}
