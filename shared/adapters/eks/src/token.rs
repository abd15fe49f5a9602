//! Bearer tokens for EKS: a call of STS GetCallerIdentity, presigned for this cluster.
//!
//! The API server sends the call to STS and so identifies its signer. It accepts a token for 15 minutes after the time of
//! signing, whatever `X-Amz-Expires` is (aws-iam-authenticator, `pkg/token`).

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign as sign_request,
};
use aws_sigv4::sign::v4;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use nodeless_ports::{ErrorKind, PortError};
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

const OPERATION: &str = "EKS token";
/// The prefix of every token.
const PREFIX: &str = "k8s-aws-v1.";
/// The header that binds the signature to one cluster.
const CLUSTER_HEADER: &str = "x-k8s-aws-id";
/// `X-Amz-Expires`, which STS checks. The API server calls STS at once, so it can be short.
const PRESIGNED_FOR: Duration = Duration::from_secs(60);
/// A token of 15 minutes is renewed after 14, so that none expires in flight.
const RENEW_AFTER: SignedDuration = SignedDuration::from_mins(14);
/// A token expires with its credentials, and is renewed this long before.
const CREDENTIALS_MARGIN: SignedDuration = SignedDuration::from_mins(1);

/// A bearer token, and until when to use it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The text after `Bearer ` in the Authorization header.
    pub value: String,
    /// When it has to be renewed.
    pub renew_at: Timestamp,
}

impl Token {
    /// Whether the token has to be renewed.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now >= self.renew_at
    }
}

/// Prints the time of renewal, not the token.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("renew_at", &self.renew_at).finish_non_exhaustive()
    }
}

/// A call could not be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignError(String);

impl std::fmt::Display for SignError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SignError {}

/// The domains of partitions other than `aws` and `aws-us-gov`, by the prefix of their regions: the `dnsSuffix` in the
/// partitions.json of the AWS SDKs.
const DOMAINS: [(&str, &str); 6] = [
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("us-isof-", "csp.hci.ic.gov"),
];

/// The regional STS endpoint: the global one would have to be reached across regions.
fn sts_url(region: &str) -> String {
    let domain =
        DOMAINS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or("amazonaws.com", |(_, name)| name);
    format!("https://sts.{region}.{domain}/?Action=GetCallerIdentity&Version=2011-06-15")
}

/// The presigned URL of GetCallerIdentity, bound to a cluster.
///
/// # Errors
/// When the cluster's name or the region cannot be part of a request.
pub fn presigned_identity_url(
    cluster: &str,
    region: &str,
    credentials: &Credentials,
    now: Timestamp,
) -> Result<String, SignError> {
    let fail = |what: &str, error: &dyn std::fmt::Display| SignError(format!("{what}: {error}"));
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(PRESIGNED_FOR);
    let identity = credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("sts")
        .time(SystemTime::from(now))
        .settings(settings)
        .build()
        .map_err(|error| fail("the signature lacks a parameter", &error))?
        .into();
    let mut url = sts_url(region);
    let request =
        SignableRequest::new("GET", url.as_str(), [(CLUSTER_HEADER, cluster)].into_iter(), SignableBody::Bytes(b""))
            .map_err(|error| {
                fail(&format!("cluster {cluster} or region {region} cannot be part of a request"), &error)
            })?;
    let (instructions, _) = sign_request(request, &params)
        .map_err(|error| fail(&format!("the identity of cluster {cluster} cannot be signed"), &error))?
        .into_parts();
    for (name, value) in instructions.params() {
        url.push('&');
        url.push_str(name);
        url.push('=');
        url.push_str(&query_encode(value));
    }
    Ok(url)
}

/// Percent-encodes all except for RFC 3986's unreserved characters, as Signature Version 4 does with query values.
fn query_encode(value: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Creates a token, and returns when to renew it: before its 15 minutes end, and before the credentials expire.
///
/// # Errors
/// As [`presigned_identity_url`].
pub fn sign(cluster: &str, region: &str, credentials: &Credentials, now: Timestamp) -> Result<Token, SignError> {
    let url = presigned_identity_url(cluster, region, credentials, now)?;
    let value = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url));
    let by_age = now.saturating_add(RENEW_AFTER).unwrap_or(Timestamp::MAX);
    let by_credentials = credentials
        .expiry()
        .and_then(|expiry| Timestamp::try_from(expiry).ok())
        .and_then(|expiry| expiry.checked_sub(CREDENTIALS_MARGIN).ok());
    Ok(Token { value, renew_at: by_credentials.map_or(by_age, |at| at.min(by_age)) })
}

/// Tokens for one cluster, each used until it has to be renewed.
pub struct Tokens {
    cluster: String,
    region: String,
    credentials: SharedCredentialsProvider,
    present: Mutex<Option<Token>>,
}

impl Tokens {
    /// Tokens for a cluster, signed with the credentials of this configuration.
    ///
    /// # Errors
    /// When the configuration has no region or no source of credentials.
    pub fn new(config: &SdkConfig, cluster: &str) -> Result<Self, PortError> {
        let lacks = |message: &str| PortError::new(ErrorKind::Invalid, OPERATION, message);
        let region = config.region().ok_or_else(|| lacks("no region is configured; set AWS_REGION"))?;
        let credentials = config.credentials_provider().ok_or_else(|| {
            lacks("no AWS credentials are configured; give the function a role, or run `aws configure` first")
        })?;
        Ok(Self { cluster: cluster.to_owned(), region: region.to_string(), credentials, present: Mutex::new(None) })
    }

    /// The current token. `refused` is one that the API server no longer accepts, for example because its credentials were
    /// revoked; it is replaced by a new one.
    ///
    /// # Errors
    /// When there are no credentials, or they cannot sign.
    pub async fn token(&self, refused: Option<&str>) -> Result<String, PortError> {
        // AWS compares the time of a signature with its own, so this is the wall clock, and no clock of a simulation.
        self.token_at(Timestamp::now(), refused).await
    }

    async fn token_at(&self, now: Timestamp, refused: Option<&str>) -> Result<String, PortError> {
        let mut present = self.present.lock().await;
        let usable = |token: &&Token| !token.is_stale(now) && refused != Some(token.value.as_str());
        if let Some(token) = present.as_ref().filter(usable) {
            return Ok(token.value.clone());
        }
        let credentials = self.credentials.provide_credentials().await.map_err(|error| {
            let message = format!("no AWS credentials: {}; check the role of the function", chain(&error));
            PortError::new(ErrorKind::Unavailable, OPERATION, message)
        })?;
        let token = sign(&self.cluster, &self.region, &credentials, now)
            .map_err(|error| PortError::new(ErrorKind::Invalid, OPERATION, error.to_string()))?;
        let value = token.value.clone();
        *present = Some(token);
        Ok(value)
    }
}

/// An error with its causes: the last one of a credential provider is the most specific.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_config::{BehaviorVersion, Region};

    fn credentials(expiry: Option<Timestamp>) -> Credentials {
        // The example key of AWS's documentation.
        Credentials::new(
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            Some("session+token/=".to_owned()),
            expiry.map(SystemTime::from),
            "test",
        )
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_url_is_bound_to_cluster_region_and_time() {
        let url =
            presigned_identity_url("one", "eu-central-1", &credentials(None), at("2026-01-02T03:04:05Z")).unwrap();
        assert!(
            url.starts_with("https://sts.eu-central-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&"),
            "{url}"
        );
        for part in [
            "X-Amz-Algorithm=AWS4-HMAC-SHA256",
            "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20260102%2Feu-central-1%2Fsts%2Faws4_request",
            "X-Amz-Date=20260102T030405Z",
            "X-Amz-Expires=60",
            "X-Amz-SignedHeaders=host%3Bx-k8s-aws-id",
            "X-Amz-Security-Token=session%2Btoken%2F%3D",
            "X-Amz-Signature=",
        ] {
            assert!(url.contains(part), "{part} is not in {url}");
        }
        let other =
            presigned_identity_url("two", "eu-central-1", &credentials(None), at("2026-01-02T03:04:05Z")).unwrap();
        assert_ne!(url, other, "the signature must cover the cluster's name");
    }

    #[test]
    fn the_token_is_the_url_in_base64() {
        let now = at("2026-01-02T03:04:05Z");
        let token = sign("one", "us-east-1", &credentials(None), now).unwrap();
        let encoded = token.value.strip_prefix("k8s-aws-v1.").unwrap();
        assert!(!encoded.contains(['=', '+', '/']));
        let url = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).unwrap()).unwrap();
        assert_eq!(url, presigned_identity_url("one", "us-east-1", &credentials(None), now).unwrap());
        assert!(!format!("{token:?}").contains("k8s-aws"), "a token must not be printed");
    }

    #[test]
    fn a_token_is_renewed_before_it_or_its_credentials_lapse() {
        let now = at("2026-01-02T03:00:00Z");
        let token = sign("one", "us-east-1", &credentials(None), now).unwrap();
        assert!(!token.is_stale(at("2026-01-02T03:13:59Z")));
        assert!(token.is_stale(at("2026-01-02T03:14:00Z")));
        let hurried = sign("one", "us-east-1", &credentials(Some(at("2026-01-02T03:05:00Z"))), now).unwrap();
        assert_eq!(hurried.renew_at, at("2026-01-02T03:04:00Z"));
        let lasting = sign("one", "us-east-1", &credentials(Some(at("2026-01-02T09:00:00Z"))), now).unwrap();
        assert_eq!(lasting.renew_at, at("2026-01-02T03:14:00Z"));
    }

    #[test]
    fn each_partition_has_its_sts() {
        assert!(sts_url("cn-north-1").starts_with("https://sts.cn-north-1.amazonaws.com.cn/"));
        assert!(sts_url("eusc-de-east-1").starts_with("https://sts.eusc-de-east-1.amazonaws.eu/"));
        assert!(sts_url("us-gov-west-1").starts_with("https://sts.us-gov-west-1.amazonaws.com/"));
    }

    #[tokio::test]
    async fn a_token_is_made_once_and_then_anew() {
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials(None)))
            .build();
        let tokens = Tokens::new(&config, "one").unwrap();
        let first = tokens.token_at(at("2026-01-02T03:00:00Z"), None).await.unwrap();
        assert_eq!(first, tokens.token_at(at("2026-01-02T03:10:00Z"), None).await.unwrap());
        let refused = tokens.token_at(at("2026-01-02T03:11:00Z"), Some(&first)).await.unwrap();
        assert_ne!(first, refused, "a token that the API server refused is not sent again");
        let later = tokens.token_at(at("2026-01-02T03:12:00Z"), Some(&first)).await.unwrap();
        assert_eq!(refused, later, "another caller had the refused token as well, and takes the new one");
        assert_ne!(refused, tokens.token_at(at("2026-01-02T03:25:30Z"), None).await.unwrap());
    }

    #[test]
    fn what_is_missing_is_named() {
        let empty = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let error = Tokens::new(&empty, "one").err().unwrap();
        assert!(error.message.contains("AWS_REGION"), "{error}");
    }
}
