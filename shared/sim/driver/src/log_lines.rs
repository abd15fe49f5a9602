//! The log lines of the driver.

use nodeless_telemetry::{Level, Line};
use serde::Serialize;

/// An operation failed. It is started again.
#[derive(Serialize)]
pub(crate) struct OperationFailed<'a> {
    pub(crate) why: &'a str,
}

impl Line for OperationFailed<'_> {
    const EVENT: &'static str = "operation-failed";
    const LEVEL: Level = Level::Warn;
}

/// An operation failed while faults are injected. It is started again.
#[derive(Serialize)]
pub(crate) struct InjectedFailure<'a> {
    pub(crate) why: &'a str,
}

impl Line for InjectedFailure<'_> {
    const EVENT: &'static str = "injected-failure";
    const LEVEL: Level = Level::Debug;
}
