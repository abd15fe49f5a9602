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
