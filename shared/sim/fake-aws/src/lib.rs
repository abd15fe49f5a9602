//! EC2 in memory: the calls that node autoscaling makes, with EC2's own rules and errors, on a virtual clock.
//!
//! [`Ec2`] is a handle to an [`Account`]: clones share it. The state changes only when time advances: [`Ec2::advance_to`]
//! advances time and [`Ec2::drain_events`] returns the events since. Faults are injected through the handle, and every call is
//! recorded.
//!
//! Unsupported calls and parameters return `UnsupportedOperation` with their name.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account;
mod addresses;
mod create_fleet;
mod describe;
mod describe_region;
mod error;
mod facts;
mod faults;
mod filter;
mod fleet;
mod fleet_allocation;
mod instance;
mod launch;
mod launch_templates;
mod offering;
mod others;
mod placement;
mod query;
mod quota_family;
mod quotas;
pub mod requests;
mod run;
mod services;
mod state;
mod tags;
mod template;
mod throttling;
mod wire;

pub use account::{
    Account, CapacityReservation, Cluster, Image, InstanceProfile, PlacementGroup, SecurityGroup, Subnet, Tags, Timing,
    Vpc,
};
pub use describe::{Page, TagOfResource};
pub use describe_region::{SpotPrice, Tagged, TypeOffering};
pub use error::Ec2Error;
pub use facts::{RegionFacts, TypeFacts, Zone};
pub use faults::{Call, LaunchFault, OfferingPattern};
pub use fleet::{CreateFleetAnswer, Fleet, FleetError, FleetInstances, LaunchTemplateAndOverrides};
pub use instance::{Ec2Event, Instance, InstanceState, PlannedEvent};
pub use offering::{CapacityType, Offering};
pub use quota_family::QuotaFamily;
pub use run::ChangedInstance;
pub use state::Ec2;
pub use template::{LaunchTemplate, LaunchTemplateVersion};
pub use wire::{aws_router, aws_router_with_clock};

#[cfg(test)]
mod tests;
