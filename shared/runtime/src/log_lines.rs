//! The log lines about messages of a batch.

use nodeless_telemetry::{Level, Line};
use serde::Serialize;

/// A message failed. It is deleted, and the heartbeat or the sweep requests its work again within a minute.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDropped<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) error: &'a str,
}

impl Line for MessageDropped<'_> {
    const EVENT: &'static str = "message-dropped";
    const LEVEL: Level = Level::Error;
}

/// A heartbeat or sweep was received more than two minutes after its event. It is deleted: the next event of the schedule requests the
/// same work.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageExpired<'a> {
    pub(crate) message_id: &'a str,
    /// The time of the event.
    pub(crate) at: jiff::Timestamp,
}

impl Line for MessageExpired<'_> {
    const EVENT: &'static str = "message-expired";
    const LEVEL: Level = Level::Warn;
}

/// A message failed for the last time and is deleted.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageGivenUp<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) error: &'a str,
    pub(crate) attempts: u32,
}

impl Line for MessageGivenUp<'_> {
    const EVENT: &'static str = "message-given-up";
    const LEVEL: Level = Level::Error;
}

/// A message is malformed. The function works as if it were empty.
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

/// A message failed and is retried.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageRetried<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) error: &'a str,
}

impl Line for MessageRetried<'_> {
    const EVENT: &'static str = "message-retried";
    const LEVEL: Level = Level::Error;
}

/// A message is malformed. SQS moves it to the dead-letter queue after the last attempt.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageUnreadable<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) error: &'a str,
}

impl Line for MessageUnreadable<'_> {
    const EVENT: &'static str = "message-unreadable";
    const LEVEL: Level = Level::Error;
}

/// The policy of the function's role does not apply yet. The call is repeated for up to a minute.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingForPermission<'a> {
    pub(crate) error: &'a str,
}

impl Line for WaitingForPermission<'_> {
    const EVENT: &'static str = "waiting-for-permission";
    const LEVEL: Level = Level::Info;
}

/// The registration of a cluster cannot be read. The cluster is not served until Terraform writes it again.
#[cfg(feature = "cluster")]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterUnreadable<'a> {
    pub(crate) error: &'a str,
}

#[cfg(feature = "cluster")]
impl Line for ClusterUnreadable<'_> {
    const EVENT: &'static str = "cluster-unreadable";
    const LEVEL: Level = Level::Error;
}

/// The registered clusters could not be read again. Those that were read before are used.
#[cfg(feature = "cluster")]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClustersNotRead<'a> {
    pub(crate) error: &'a str,
}

#[cfg(feature = "cluster")]
impl Line for ClustersNotRead<'_> {
    const EVENT: &'static str = "clusters-not-read";
    const LEVEL: Level = Level::Warn;
}

/// The cluster has another endpoint or certificate authority than the cached connection: it was created again under the same name, or its
/// certificate authority was replaced. The function connects again.
#[cfg(feature = "cluster")]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterReplaced<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
}

#[cfg(feature = "cluster")]
impl Line for ClusterReplaced<'_> {
    const EVENT: &'static str = "cluster-replaced";
    const LEVEL: Level = Level::Warn;
}

/// The API server could not be reached, and EKS did not report whether the cluster has another endpoint. The cached connection is kept.
#[cfg(feature = "cluster")]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterNotDescribed<'a> {
    pub(crate) error: &'a str,
}

#[cfg(feature = "cluster")]
impl Line for ClusterNotDescribed<'_> {
    const EVENT: &'static str = "cluster-not-described";
    const LEVEL: Level = Level::Warn;
}
