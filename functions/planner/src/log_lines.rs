//! The log lines of the function.

use nodeless_telemetry::{Level, Line};
use serde::Serialize;

/// No plan was made. The heartbeat requests the next within a minute.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanFailed<'a> {
    pub(crate) error: &'a str,
}

impl Line for PlanFailed<'_> {
    const EVENT: &'static str = "plan-failed";
    const LEVEL: Level = Level::Error;
}
