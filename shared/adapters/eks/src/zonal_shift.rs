//! Zonal shifts of the cluster, as Amazon Application Recovery Controller (ARC) lists them.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_arczonalshift::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_arczonalshift::operation::get_managed_resource::{GetManagedResourceError, GetManagedResourceOutput};
use aws_sdk_arczonalshift::primitives::DateTime;
use aws_sdk_arczonalshift::types::{AppliedStatus, AutoshiftAppliedStatus};
use jiff::Timestamp;
use nodeless_ports::{ErrorKind, PortError, ZonalShift, ZonalShifts, with_causes};

const OPERATION: &str = "ARC GetManagedResource";

/// Reads the zonal shifts of one cluster.
#[derive(Clone, Debug)]
pub struct ArcZonalShifts {
    client: aws_sdk_arczonalshift::Client,
    cluster_arn: String,
}

impl ArcZonalShifts {
    /// The zonal shifts of the cluster with this ARN.
    #[must_use]
    pub fn new(config: &SdkConfig, cluster_arn: impl Into<String>) -> Self {
        Self { client: aws_sdk_arczonalshift::Client::new(config), cluster_arn: cluster_arn.into() }
    }
}

#[async_trait]
impl ZonalShifts for ArcZonalShifts {
    async fn applied(&self) -> Result<Vec<ZonalShift>, PortError> {
        let call = self.client.get_managed_resource().resource_identifier(&self.cluster_arn);
        applied(&call.send().await.map_err(|error| refuse(&self.cluster_arn, &error))?)
    }
}

/// The applied shifts: those that users, practice runs and experiments started, and those that AWS started.
fn applied(answer: &GetManagedResourceOutput) -> Result<Vec<ZonalShift>, PortError> {
    let mut shifts = Vec::new();
    for shift in answer.zonal_shifts() {
        if is_applied(shift.applied_status().as_str(), AppliedStatus::Applied.as_str())? {
            shifts.push(named(shift.away_from(), end(shift.expiry_time()))?);
        }
    }
    for shift in answer.autoshifts() {
        if is_applied(shift.applied_status().as_str(), AutoshiftAppliedStatus::Applied.as_str())? {
            shifts.push(named(shift.away_from(), None)?);
        }
    }
    Ok(shifts)
}

fn is_applied(status: &str, applied: &str) -> Result<bool, PortError> {
    match status {
        status if status == applied => Ok(true),
        "NOT_APPLIED" => Ok(false),
        other => Err(unclear(format!("a shift has the applied status {other:?}, which is unknown to this version"))),
    }
}

fn named(zone_id: &str, until: Option<Timestamp>) -> Result<ZonalShift, PortError> {
    if zone_id.is_empty() {
        return Err(unclear("a shift names no zone".to_owned()));
    }
    Ok(ZonalShift { zone_id: zone_id.to_owned(), until })
}

/// When a shift expires; `None` if ARC returns no time, which the SDK converts to 1970.
fn end(at: &DateTime) -> Option<Timestamp> {
    Timestamp::from_second(at.secs()).ok().filter(|end| *end > Timestamp::UNIX_EPOCH)
}

fn unclear(message: String) -> PortError {
    PortError::new(ErrorKind::Invalid, OPERATION, message)
}

fn refuse(cluster_arn: &str, error: &SdkError<GetManagedResourceError>) -> PortError {
    let code = error.code().unwrap_or_default();
    let message = error.message().map_or_else(|| with_causes(error), str::to_owned);
    let (kind, next) = reaction(code, matches!(error, SdkError::ConstructionFailure(_)), cluster_arn);
    PortError::new(kind, OPERATION, format!("{message}{next}")).with_code(code)
}

/// The kind of an error code of ARC, and how to fix it. ARC denies access to a cluster that is not registered.
fn reaction(code: &str, unbuilt: bool, cluster_arn: &str) -> (ErrorKind, String) {
    let registered = format!("zonal shift has to be enabled for {cluster_arn} (zonalShiftConfig in EKS)");
    match code {
        "ResourceNotFoundException" => (ErrorKind::NotFound, format!("; {registered}")),
        "AccessDeniedException"
        | "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "ExpiredTokenException"
        | "InvalidSignatureException" => (
            ErrorKind::Denied,
            format!("; {registered}, and the function's role needs arc-zonal-shift:GetManagedResource on it"),
        ),
        "ThrottlingException" | "TooManyRequestsException" => (ErrorKind::Throttled, String::new()),
        "ValidationException" => (ErrorKind::Invalid, format!("; {cluster_arn} has to be the cluster's ARN")),
        _ if unbuilt => (ErrorKind::Invalid, "; check AWS_REGION".to_owned()),
        _ => (ErrorKind::Unavailable, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_reaction() {
        for (code, kind) in [
            ("ResourceNotFoundException", ErrorKind::NotFound),
            ("AccessDeniedException", ErrorKind::Denied),
            ("ThrottlingException", ErrorKind::Throttled),
            ("ValidationException", ErrorKind::Invalid),
            ("InternalServerException", ErrorKind::Unavailable),
        ] {
            assert_eq!(reaction(code, false, "arn").0, kind, "{code}");
        }
        assert_eq!(reaction("", true, "arn").0, ErrorKind::Invalid);
        assert!(reaction("AccessDeniedException", false, "arn").1.contains("zonalShiftConfig"));
    }
}
