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

/// A message of the plan queue is malformed. The plan is made all the same.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageMalformed<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) error: &'a str,
}

impl Line for MessageMalformed<'_> {
    const EVENT: &'static str = "message-malformed";
    const LEVEL: Level = Level::Error;
}
