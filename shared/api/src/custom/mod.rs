//! The custom resources: their types, defaults and rules.

pub mod capacitybuffer;
pub mod common;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodeoverlay;
pub mod nodepool;
pub mod provisioningrequest;
pub(crate) mod rules;
