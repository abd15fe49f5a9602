//! The log lines of the function.

use nodeless_telemetry::{Level, Line};
use serde::Serialize;

/// The cluster does not exist any more, so there is nothing to remove.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterMissing {}

impl Line for ClusterMissing {
    const EVENT: &'static str = "cluster-missing";
    const LEVEL: Level = Level::Warn;
}

/// An object was installed or removed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectInstalled<'a> {
    pub(crate) object: &'a str,
    pub(crate) outcome: &'a str,
    pub(crate) note: Option<&'a str>,
}

impl Line for ObjectInstalled<'_> {
    const EVENT: &'static str = "object-installed";
    const LEVEL: Level = Level::Info;
}

/// A check of the cluster after the installation found something.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterFinding<'a> {
    #[serde(flatten)]
    pub(crate) finding: &'a nodeless_doctor::Finding,
}

impl Line for ClusterFinding<'_> {
    const EVENT: &'static str = "cluster-finding";
    const LEVEL: Level = Level::Warn;
}

/// A check of the cluster after the installation could not be made.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterNotChecked<'a> {
    pub(crate) error: &'a str,
}

impl Line for ClusterNotChecked<'_> {
    const EVENT: &'static str = "cluster-not-checked";
    const LEVEL: Level = Level::Info;
}

/// The webhook is not installed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookLeftOut<'a> {
    pub(crate) why: &'a str,
}

impl Line for WebhookLeftOut<'_> {
    const EVENT: &'static str = "webhook-left-out";
    const LEVEL: Level = Level::Warn;
}

/// The function is not cluster-admin yet: IAM, EKS or the API server has not applied a change.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingForAccess<'a> {
    pub(crate) error: &'a str,
}

impl Line for WaitingForAccess<'_> {
    const EVENT: &'static str = "waiting-for-access";
    const LEVEL: Level = Level::Info;
}
