//! The log lines of the function.

use nodeless_telemetry::{Level, Line};
use serde::Serialize;

/// The catalog was not refreshed. The schedule requests it again.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogNotRefreshed<'a> {
    pub(crate) error: &'a str,
}

impl Line for CatalogNotRefreshed<'_> {
    const EVENT: &'static str = "catalog-not-refreshed";
    const LEVEL: Level = Level::Error;
}

/// The report of costs was not sent. Its message is received twice, and then moves to the dead-letter queue.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CostReportNotSent<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) error: &'a str,
}

impl Line for CostReportNotSent<'_> {
    const EVENT: &'static str = "cost-report-not-sent";
    const LEVEL: Level = Level::Error;
}
