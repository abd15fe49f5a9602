//! An instance, and the events of its lifecycle.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::account::Tags;
use super::offering::Offering;
use crate::requests::LaunchTemplateData;

/// The states of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceState {
    /// Pending.
    Pending,
    /// Running.
    Running,
    /// Being stopped.
    Stopping,
    /// Stopped.
    Stopped,
    /// Shutting down.
    ShuttingDown,
    /// Terminated, still described for a while.
    Terminated,
}

impl InstanceState {
    /// EC2's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// EC2's code.
    pub fn code(self) -> u16 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopping => 64,
            Self::Stopped => 80,
        }
    }

    /// EC2's value of passing status checks of an instance in this state.
    pub(crate) fn passing(self) -> &'static str {
        match self {
            Self::Pending => "initializing",
            Self::Running => "ok",
            Self::Stopping | Self::Stopped | Self::ShuttingDown | Self::Terminated => "not-applicable",
        }
    }

    /// Whether the instance uses capacity and is billed.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Whether the instance can be terminated.
    pub(crate) fn exists(self) -> bool {
        !matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

/// A scheduled event of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEvent {
    /// `instance-event-…`
    pub id: String,
    /// The code, such as `instance-retirement`.
    pub code: String,
    /// The description. A completed or canceled event starts with `[Completed]` or `[Canceled]`.
    pub description: String,
    /// The earliest start time.
    pub not_before: Timestamp,
}

/// An instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// `i-…`
    pub id: String,
    /// The call that launched it: `r-…`
    pub reservation_id: String,
    /// Index among the instances of that call.
    pub launch_index: u32,
    /// Offering.
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
    /// Private IP address.
    pub private_ip: String,
    /// Private DNS name, such as `ip-10-0-0-4.ec2.internal`.
    pub private_dns_name: String,
    /// Network interface: `eni-…`
    pub network_interface_id: String,
    /// Root volume: `vol-…`
    pub volume_id: String,
    /// Security groups.
    pub security_group_ids: Vec<String>,
    /// The profile's ARN and id.
    pub instance_profile: Option<(String, String)>,
    /// The data of the template and the call.
    pub data: Arc<LaunchTemplateData>,
    /// The fleet that launched it.
    pub fleet_id: Option<String>,
    /// `sir-…`, for spot.
    pub spot_request_id: Option<String>,
    /// The reservation whose capacity it uses.
    pub capacity_reservation_id: Option<String>,
    /// The partition of its placement group.
    pub partition: Option<u32>,
    /// The launching call's client token.
    pub client_token: Option<String>,
    /// Dollars an hour.
    pub price: f64,
    /// When it was launched.
    pub launched: Timestamp,
    /// When describe calls start to return it.
    pub visible_from: Timestamp,
    /// When describe calls start to return its tags.
    pub tags_visible_from: Timestamp,
    /// State.
    pub state: InstanceState,
    /// When it was last stopped, or its termination started.
    pub stopped: Option<Timestamp>,
    /// Whether it was started again after it was stopped.
    pub restarted: bool,
    /// Whether it uses capacity of its offering. A stopped instance uses none.
    pub uses_capacity: bool,
    /// The reason of its state: code and message.
    pub state_reason: Option<(String, String)>,
    /// When the instance status check began to fail, if it fails.
    pub impaired_since: Option<Timestamp>,
    /// When the system status check began to fail, if it fails.
    pub system_impaired_since: Option<Timestamp>,
    /// Scheduled events.
    pub planned: Vec<PlannedEvent>,
    /// Whether the kubelet joins the cluster. False only by an injected fault.
    pub joins: bool,
    /// Tags.
    pub tags: Tags,
}

impl Instance {
    /// The values of the instance status check and the system status check, and since when each fails.
    pub(crate) fn checks(&self) -> [(&'static str, Option<Timestamp>); 2] {
        [self.impaired_since, self.system_impaired_since].map(|since| {
            let since = since.filter(|_| self.state == InstanceState::Running);
            (if since.is_some() { "impaired" } else { self.state.passing() }, since)
        })
    }
}

/// The events since the last call.
#[derive(Debug, Clone, PartialEq)]
pub enum Ec2Event {
    /// An instance is running, and its kubelet joins the cluster if `instance.joins`.
    InstanceRunning {
        /// The instance.
        instance: Box<Instance>,
    },
    /// An instance is being stopped: its kubelet is stopping.
    InstanceStopping {
        /// The instance.
        instance: Box<Instance>,
    },
    /// An instance is rebooted: its kubelet stops, and starts again.
    InstanceRebooted {
        /// The instance.
        instance: Box<Instance>,
    },
    /// The termination of an instance started: its kubelet is stopping.
    InstanceShuttingDown {
        /// The instance.
        instance: Box<Instance>,
    },
    /// An instance is terminated.
    InstanceTerminated {
        /// The instance.
        instance: Box<Instance>,
    },
    /// EC2 interrupts a spot instance after the warning time.
    SpotInterruption {
        /// The instance.
        instance_id: String,
        /// The EventBridge event.
        event: Value,
    },
    /// EC2 reclaims the interruptible capacity reservation of an instance after the warning time.
    CapacityReclaimed {
        /// The instance.
        instance_id: String,
        /// The EventBridge event.
        event: Value,
    },
    /// A spot instance has an elevated risk of interruption.
    RebalanceRecommendation {
        /// The instance.
        instance_id: String,
        /// The EventBridge event.
        event: Value,
    },
    /// An instance's state changed.
    StateChange {
        /// The instance.
        instance_id: String,
        /// The EventBridge event.
        event: Value,
    },
}

impl Ec2Event {
    /// The event as EventBridge delivers it, if EventBridge supports it.
    pub fn event_bridge(&self) -> Option<&Value> {
        match self {
            Self::SpotInterruption { event, .. }
            | Self::CapacityReclaimed { event, .. }
            | Self::RebalanceRecommendation { event, .. }
            | Self::StateChange { event, .. } => Some(event),
            Self::InstanceRunning { .. }
            | Self::InstanceRebooted { .. }
            | Self::InstanceStopping { .. }
            | Self::InstanceShuttingDown { .. }
            | Self::InstanceTerminated { .. } => None,
        }
    }
}
