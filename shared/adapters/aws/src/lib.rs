//! Loads the configuration and classifies errors for all AWS adapters.
#![cfg_attr(test, allow(clippy::unwrap_used))]

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use nodeless_ports::{ErrorKind, PortError, with_causes};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often the SDK tries a call. Three attempts with the SDK's jittered backoff stay within a few seconds; what still
/// fails then is left to the next wake-up, which is cheaper than a Lambda that waits.
const ATTEMPTS: u32 = 3;

/// Reads the region, credentials and endpoints from the environment, as every AWS tool does. `AWS_ENDPOINT_URL` and its
/// forms per service point the clients at an emulator.
pub async fn load_config() -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(3))
        .operation_attempt_timeout(Duration::from_secs(15))
        .build();
    aws_config::defaults(BehaviorVersion::latest())
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts)
        .load()
        .await
}

/// Replaces endpoints: environment variables such as `AWS_ENDPOINT_URL_EC2`, by name. They take precedence over those of the
/// process.
#[must_use]
pub fn with_endpoints(config: &SdkConfig, endpoints: BTreeMap<String, String>) -> SdkConfig {
    if endpoints.is_empty() {
        return config.clone();
    }
    config.clone().into_builder().service_config(Endpoints { endpoints, others: config.clone() }).build()
}

/// The settings of services, with other endpoints.
#[derive(Debug)]
struct Endpoints {
    endpoints: BTreeMap<String, String>,
    others: SdkConfig,
}

impl LoadServiceConfig for Endpoints {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        let of_service = self.endpoints.get(&format!("{}_{service}", key.env()));
        let found = of_service.or_else(|| self.endpoints.get(key.env())).cloned();
        found.or_else(|| self.others.service_config().and_then(|others| others.load_config(key)))
    }
}

/// An SDK error as a [`PortError`], named after the operation (such as `EC2 CreateFleet`).
pub fn port_error<E>(operation: &str, error: &SdkError<E, HttpResponse>) -> PortError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match error {
        SdkError::ServiceError(service) => {
            let code = service.err().code().unwrap_or_default();
            let status = service.raw().status().as_u16();
            let message = service.err().message().unwrap_or("the service gave no message");
            PortError::new(kind_of(code, status), operation, message).with_code(code)
        }
        SdkError::ConstructionFailure(_) => PortError::new(ErrorKind::Invalid, operation, with_causes(error)),
        _ => PortError::new(ErrorKind::Unavailable, operation, with_causes(error)),
    }
}

/// Classifies an error code and HTTP status.
#[must_use]
pub fn kind_of(code: &str, status: u16) -> ErrorKind {
    const THROTTLED: [&str; 9] = [
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "RequestThrottled",
        "ProvisionedThroughputExceededException",
        "EC2ThrottledException",
        "SlowDown",
    ];
    if THROTTLED.contains(&code) || status == 429 {
        return ErrorKind::Throttled;
    }
    if code == "ConditionalCheckFailedException" || code == "TransactionConflictException" {
        return ErrorKind::Conflict;
    }
    let denied = ["UnauthorizedOperation", "AuthFailure", "OptInRequired", "PendingVerification"].contains(&code)
        || code.starts_with("AccessDenied")
        || code.starts_with("AuthFailure.")
        || code.contains("ExpiredToken")
        || code.contains("InvalidClientTokenId")
        || code == "UnrecognizedClientException";
    if denied || status == 401 || status == 403 {
        return ErrorKind::Denied;
    }
    let not_found = code.ends_with(".NotFound")
        || code.ends_with("NotFoundException")
        || code == "NoSuchEntity"
        || code == "ParameterNotFound"
        || code.ends_with(".NonExistentQueue")
        || code == "QueueDoesNotExist";
    if not_found {
        return ErrorKind::NotFound;
    }
    // An earlier attempt of the same transaction is in progress.
    if code == "TransactionInProgressException" {
        return ErrorKind::Unavailable;
    }
    if status >= 500 || status == 0 { ErrorKind::Unavailable } else { ErrorKind::Invalid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_a_cluster_take_precedence() {
        let own = SdkConfig::builder().build();
        let variables = [("AWS_ENDPOINT_URL_EC2", "http://ec2"), ("AWS_ENDPOINT_URL_ARC_ZONAL_SHIFT", "http://arc")];
        let variables = variables.map(|(name, url)| (name.to_owned(), url.to_owned())).into();
        let first = with_endpoints(&own, variables);
        let second =
            with_endpoints(&first, BTreeMap::from([("AWS_ENDPOINT_URL_EC2".to_owned(), "http://b".to_owned())]));
        let endpoint = |config: &SdkConfig, service| {
            let key = ServiceConfigKey::builder().service_id(service).env("AWS_ENDPOINT_URL").profile("endpoint_url");
            config.service_config().unwrap().load_config(key.build().unwrap())
        };
        assert_eq!(endpoint(&first, "EC2").as_deref(), Some("http://ec2"));
        assert_eq!(endpoint(&first, "ARC Zonal Shift").as_deref(), Some("http://arc"));
        assert_eq!(endpoint(&first, "SQS"), None);
        assert_eq!(endpoint(&second, "EC2").as_deref(), Some("http://b"));
        assert_eq!(endpoint(&second, "ARC Zonal Shift").as_deref(), Some("http://arc"));
        assert!(with_endpoints(&own, BTreeMap::new()).service_config().is_none());
    }

    #[test]
    fn codes_determine_the_kind_of_error() {
        for (code, status, kind) in [
            ("RequestLimitExceeded", 503, ErrorKind::Throttled),
            ("UnauthorizedOperation", 403, ErrorKind::Denied),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 400, ErrorKind::Denied),
            ("InvalidInstanceID.NotFound", 400, ErrorKind::NotFound),
            ("InvalidLaunchTemplateName.NotFoundException", 400, ErrorKind::NotFound),
            ("ConditionalCheckFailedException", 400, ErrorKind::Conflict),
            ("InvalidParameterValue", 400, ErrorKind::Invalid),
            ("InternalError", 500, ErrorKind::Unavailable),
            ("TransactionInProgressException", 400, ErrorKind::Unavailable),
            ("", 502, ErrorKind::Unavailable),
        ] {
            assert_eq!(kind_of(code, status), kind, "{code} {status}");
        }
    }
}
