//! Nodes: their claims, instances and instance types.

pub mod certificate_authorities;
pub mod claim;
pub mod ended;
pub mod instance;
pub mod instance_type;
pub mod launch_check;
pub mod managed;
pub mod node;
pub mod other_controllers;
pub mod shortage;
pub mod spot_interruption;
