//! One module for each command.

pub(crate) mod catalog;
pub(crate) mod convert;
pub(crate) mod decisions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod generated;
pub(crate) mod install;
pub(crate) mod local;
pub(crate) mod metrics;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod simulate;
pub(crate) mod upgrade;
pub(crate) mod view;
