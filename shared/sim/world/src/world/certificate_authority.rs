//! A rotation of the cluster's certificate authority, as EKS does it: a successor is added to what clients trust, and activated later.
//! <https://docs.aws.amazon.com/eks/latest/userguide/certificate-authority-rotation.html>
//!
//! From then on a kubelet reaches the API server only if the bundle in its user data has the successor.

use super::{World, join};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use nodeless_fake_aws::Instance;
use nodeless_fake_kubernetes::controllers::Machine;

/// The certificate authority of a cluster without a rotation, as EKS returns it.
pub(crate) const FIRST_BUNDLE: &str = "c2ltdWxhdGVk";

/// What EKS returned as the certificate authority from a time on.
#[derive(Debug)]
struct Bundle {
    encoded: String,
    /// The numbers of its authorities.
    authorities: Vec<u32>,
}

/// The certificate authorities of the cluster, by number.
#[derive(Debug)]
pub struct CertificateAuthorities {
    bundles: Vec<Bundle>,
    active: u32,
    activated: Timestamp,
}

impl CertificateAuthorities {
    pub(super) fn starting(now: Timestamp) -> Self {
        let first = Bundle { encoded: FIRST_BUNDLE.to_owned(), authorities: vec![0] };
        Self { bundles: vec![first], active: 0, activated: now }
    }

    /// Those that clients are to trust now.
    #[must_use]
    pub fn present(&self) -> &[u32] {
        self.bundles.last().map(|bundle| bundle.authorities.as_slice()).unwrap_or_default()
    }

    /// The one that signs.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.active
    }

    /// When it was activated.
    #[must_use]
    pub fn activated(&self) -> Timestamp {
        self.activated
    }

    /// Those that the kubelet of an instance trusts by its user data.
    #[must_use]
    pub fn trusted_by(&self, instance: &Instance) -> &[u32] {
        let user_data = instance.data.user_data.as_deref().and_then(|encoded| STANDARD.decode(encoded.trim()).ok());
        let user_data = user_data.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        // The first bundle is also the beginning of later ones.
        let found = self.bundles.iter().rev().find(|bundle| user_data.contains(&bundle.encoded));
        found.map(|bundle| bundle.authorities.as_slice()).unwrap_or_default()
    }

    /// Whether the kubelet of an instance reaches the API server. Before a rotation each does.
    fn admits(&self, instance: &Instance) -> bool {
        self.active == 0 || self.trusted_by(instance).contains(&self.active)
    }

    /// Adds a successor of the active one. One that was retired before is removed, because there are two at most.
    fn add(&mut self) -> String {
        let successor = self.present().iter().max().map_or(1, |last| last + 1);
        let authorities = vec![self.active, successor];
        let text = |number: &u32| match number {
            0 => "simulated".to_owned(),
            number => format!("simulated successor {number}"),
        };
        let bundle: String =
            authorities.iter().map(|number| format!("{}\n-----END CERTIFICATE-----\n", text(number))).collect();
        let encoded = STANDARD.encode(bundle);
        self.bundles.push(Bundle { encoded: encoded.clone(), authorities });
        encoded
    }
}

impl World {
    /// The certificate authorities of the cluster.
    pub fn certificate_authorities(&self) -> &CertificateAuthorities {
        &self.authorities
    }

    /// EKS adds a successor of the certificate authority to what it returns.
    pub fn add_certificate_authority(&mut self) {
        let bundle = self.authorities.add();
        let (now, cluster, version) = (self.now(), &self.options.cluster_name, &self.options.version);
        self.ec2.change_account(|account| {
            account.add_cluster(cluster, "https://kubernetes.invalid", &bundle, version, now);
        });
    }

    /// EKS signs with the successor from now on. Returns the instances whose kubelets lose the API server.
    pub fn activate_certificate_authority(&mut self) -> Vec<String> {
        self.authorities.active = self.authorities.present().last().copied().unwrap_or_default();
        self.authorities.activated = self.now();
        let lost: Vec<Instance> =
            self.ec2.instances().into_iter().filter(|instance| !self.authorities.admits(instance)).collect();
        lost.into_iter().map(|instance| instance.id).filter(|id| self.silence(id)).collect()
    }

    /// The machine of a running instance; `None` if it never joins.
    pub(super) fn machine(&self, instance: &Instance) -> Option<Machine> {
        if !self.authorities.admits(instance) {
            self.ec2.change_instance(&instance.id, |instance| instance.joins = false);
            return None;
        }
        join::machine(instance, &self.catalog, &self.options, self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_launch::authority_digests;

    #[test]
    fn a_bundle_has_the_active_authority_and_its_successor() {
        let mut authorities = CertificateAuthorities::starting(Timestamp::UNIX_EPOCH);
        let digests = |bundle: &str| authority_digests(bundle).split('.').map(str::to_owned).collect::<Vec<_>>();
        let first = digests(FIRST_BUNDLE);
        let second = digests(&authorities.add());
        assert_eq!((first.len(), second.len(), authorities.present()), (1, 2, [0, 1].as_slice()));
        assert!(second.contains(&first[0]));
        authorities.active = 1;
        let third = digests(&authorities.add());
        assert_eq!(authorities.present(), [1, 2]);
        assert!(!third.contains(&first[0]) && third.iter().filter(|digest| second.contains(digest)).count() == 1);
    }
}
