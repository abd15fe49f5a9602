//! The log lines of the function.

use nodeless_telemetry::{Level, Line};
use serde::Serialize;

/// The planner was not woken. The heartbeat wakes it within a minute.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannerNotWoken<'a> {
    pub(crate) error: &'a str,
}

impl Line for PlannerNotWoken<'_> {
    const EVENT: &'static str = "planner-not-woken";
    const LEVEL: Level = Level::Error;
}
