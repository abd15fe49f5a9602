//! Converts an EC2NodeClass and a claim to requests to EC2: a pure crate, without SDK, clock or I/O.
//!
//! - [`user_data`]: how an instance becomes a node, by the family of its image.
//! - [`block_devices`]: the disks, and which of them has the data of containers.
//! - [`template`]: launch templates as plain values, named after their content.
//! - [`kubelet_values`]: the values of expressions in the kubelet's configuration.
//! - [`fleet`]: the request of one CreateFleet call.
//! - [`shortage`]: what lacks capacity after a failed launch.
//! - [`request`]: both in the JSON form of the EC2 API, which golden files contain and the simulated EC2 accepts.
//! - [`volume_prices`]: what the volumes of a node cost.
//! - [`node_class`]: what an EC2NodeClass resolves to: images of an alias, validation, conditions.
//!
//! The AWS adapter converts these values to the SDK's types; the simulation uses them directly. So both launch in the same way,
//! and tests of launches need neither.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod block_devices;
pub mod fleet;
pub mod kubelet_values;
pub mod launch_budget;
pub mod node_class;
pub mod request;
pub mod shortage;
pub mod template;
pub mod user_data;
pub mod volume_prices;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodeless_model::certificate_authorities::SEPARATOR;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The cluster settings in user data and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDetails {
    /// The cluster's name in EKS.
    pub name: String,
    /// The Kubernetes version, such as `1.33`, for which images are published.
    pub version: String,
    /// The URL of the API server.
    pub endpoint: String,
    /// The certificate authority in the form of EKS: PEM in base64.
    pub certificate_authority: String,
    /// The addresses of services, such as `10.100.0.0/16`; without it an AL2023 node cannot join.
    pub service_cidr: Option<String>,
}

impl ClusterDetails {
    /// Whether pods and services have IPv6 addresses, which is fixed for an EKS cluster.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.service_cidr.as_deref().is_some_and(|cidr| cidr.contains(':'))
    }

    /// The digests of the certificate authorities, for the tag and annotation `nodeless.sh/certificate-authority`; `None` without one.
    #[must_use]
    pub fn authority_digests(&self) -> Option<String> {
        (!self.certificate_authority.is_empty()).then(|| authority_digests(&self.certificate_authority))
    }

    /// Minor and major version of Kubernetes, if it is written in the format of EKS.
    pub(crate) fn minor_version(version: &str) -> Option<(u32, u32)> {
        let (major, rest) = version.trim_start_matches('v').split_once('.')?;
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

/// The digest of each certificate of a bundle, which is PEM in base64: the first 64 bits of the SHA-256 of its text, in hexadecimal and in the
/// order of the digests. What is no PEM counts as one certificate.
#[must_use]
pub fn authority_digests(bundle: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    let decoded = STANDARD.decode(bundle).unwrap_or_else(|_| bundle.as_bytes().to_vec());
    let text = String::from_utf8_lossy(&decoded);
    let certificates = text.split(END).map(str::trim).filter(|text| !text.is_empty());
    let digest = |text: &str| Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
    let digests: BTreeSet<String> = certificates.map(digest).collect();
    digests.into_iter().collect::<Vec<_>>().join(&SEPARATOR.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_model::certificate_authorities::lacks_any;

    #[test]
    fn a_bundle_has_a_digest_for_each_certificate() {
        let certificate = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        let digests = |certificates: &[&str]| {
            authority_digests(&STANDARD.encode(certificates.iter().map(|body| certificate(body)).collect::<String>()))
        };
        let (one, both) = (digests(&["MIIA"]), digests(&["MIIA", "MIIB"]));
        assert_eq!((one.len(), both.len()), (16, 33), "{one} {both}");
        assert!(lacks_any(&one, &both) && !lacks_any(&both, &one) && !lacks_any(&both, &digests(&["MIIB", "MIIA"])));
        assert_ne!(authority_digests("Q0E="), authority_digests("Q0I="));
    }
}
