//! EC2 in memory: the calls that node autoscaling makes, with EC2's own rules and errors, on a virtual clock.
//!
//! [`Ec2`] is a handle to an [`Account`]: clones share it. The state changes only when time advances: [`Ec2::advance_to`]
//! advances time and [`Ec2::drain_events`] returns the events since. Faults are injected through the handle, and every call is
//! recorded.
//!
//! Unsupported calls and parameters return `UnsupportedOperation` with their name.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod describe;
mod describe_region;
mod error;
mod faults;
mod filter;
mod launch_templates;
mod launches;
mod objects;
mod others;
mod query;
pub mod requests;
mod services;
mod state;
mod tags;
mod throttling;
mod wire;

pub use describe::{Page, TagOfResource};
pub use describe_region::{SpotPrice, Tagged, TypeOffering};
pub use error::Ec2Error;
pub use faults::{LaunchFault, OfferingPattern, RecordedCall};
pub use launches::run::ChangedInstance;
pub use objects::account::{
    Account, CapacityReservation, Cluster, Image, InstanceProfile, PlacementGroup, SecurityGroup, Subnet, Tags, Timing,
    Vpc,
};
pub use objects::facts::{RegionFacts, TypeFacts, Zone};
pub use objects::fleet::{CreateFleetAnswer, Fleet, FleetError, FleetInstances, LaunchTemplateAndOverrides};
pub use objects::instance::{Ec2Event, Instance, InstanceState, PlannedEvent};
pub use objects::offering::{CapacityType, Offering};
pub use objects::quota_family::QuotaFamily;
pub use objects::template::{LaunchTemplate, LaunchTemplateVersion};
pub use state::Ec2;
pub use wire::{aws_router, aws_router_with_clock};

#[cfg(test)]
mod tests;
