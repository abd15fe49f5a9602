//! A role that makes itself cluster-admin, for as long as it works.

use crate::authentication::failed;
use aws_config::SdkConfig;
use aws_sdk_eks::Client;
use aws_sdk_eks::types::{AccessScope, AccessScopeType};
use nodeless_model::shell::quoted;
use nodeless_ports::{ErrorKind, PortError};

/// The access policy of a cluster-admin, and the access entry of the role that associates it with itself.
#[derive(Clone, Debug)]
pub struct ClusterAdmin {
    client: Client,
    cluster: String,
    role_arn: String,
    policy_arn: String,
}

impl ClusterAdmin {
    /// The access entry of a role, whose ARN has the partition of the policy.
    #[must_use]
    pub fn new(config: &SdkConfig, cluster: &str, role_arn: &str) -> Self {
        let partition = role_arn.split(':').nth(1).unwrap_or("aws");
        Self {
            client: Client::new(config),
            cluster: cluster.to_owned(),
            role_arn: role_arn.to_owned(),
            policy_arn: format!("arn:{partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"),
        }
    }

    /// Associates the policy with the access entry, for the whole cluster. A repeated call changes nothing. The API server takes seconds
    /// to honour it.
    ///
    /// # Errors
    /// When the role has no access entry, IAM denies the call, or EKS does not answer.
    pub async fn associate(&self) -> Result<(), PortError> {
        let request = self
            .client
            .associate_access_policy()
            .cluster_name(&self.cluster)
            .principal_arn(&self.role_arn)
            .policy_arn(&self.policy_arn)
            .access_scope(AccessScope::builder().r#type(AccessScopeType::Cluster).build());
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.advise(failed("EKS AssociateAccessPolicy", &error))),
        }
    }

    /// Ends the association. One that does not exist has ended.
    ///
    /// # Errors
    /// When IAM denies the call, or EKS does not answer: then the association may still exist.
    pub async fn disassociate(&self) -> Result<(), PortError> {
        let request = self
            .client
            .disassociate_access_policy()
            .cluster_name(&self.cluster)
            .principal_arn(&self.role_arn)
            .policy_arn(&self.policy_arn);
        match request.send().await.map_err(|error| failed("EKS DisassociateAccessPolicy", &error)) {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The command that ends the association.
    #[must_use]
    pub fn command_to_end(&self) -> String {
        format!(
            "aws eks disassociate-access-policy --cluster-name {} --principal-arn {} --policy-arn {}",
            quoted(&self.cluster),
            quoted(&self.role_arn),
            quoted(&self.policy_arn)
        )
    }

    fn advise(&self, mut error: PortError) -> PortError {
        let advice = match error.kind {
            ErrorKind::NotFound => format!(
                "; the role of the installer needs an access entry, which the Terraform module creates unless create_access_entries = \
                 false: `aws eks create-access-entry --cluster-name {} --principal-arn {}`",
                quoted(&self.cluster),
                quoted(&self.role_arn)
            ),
            ErrorKind::Denied => "; the policy that the Terraform module gives the role allows this call, so a service control policy or \
                                  a permissions boundary denies it: allow it, or set install = false and run `nodeless install` with \
                                  your own kubeconfig"
                .to_owned(),
            _ => String::new(),
        };
        error.message.push_str(&advice);
        error
    }
}
