//! Reads the facts about a cluster.

use super::planned::planned;
use crate::error::CliError;
use crate::plan::input::catalog::{CatalogArguments, location};
use crate::plan::input::live;
use jiff::Timestamp;
use nodeless_doctor::{Access, Facts, Quota, Read};
use nodeless_kubernetes::{Connection, facts};

#[cfg(feature = "aws")]
const NO_NAME: &str = "the checks in AWS need the name of the cluster; give --cluster-name";

/// Reads the facts. What the user may not read is part of them.
///
/// # Errors
/// When the cluster cannot be reached.
pub(crate) async fn read(
    connection: &Connection,
    catalog: &CatalogArguments,
    cluster_name: Option<&str>,
) -> Result<Facts, CliError> {
    let (reader, unread) = live::read_permitted(connection).await?;
    let snapshot = reader.finish();
    // The clock of `nodeless local --speed` is ahead of the system clock.
    let now = Timestamp::now().max(snapshot.latest);
    let planned = if unread.is_empty() {
        let catalog = catalog.load(&location(&snapshot.view))?.catalog;
        planned(&snapshot.view, &snapshot.claims, &catalog, now)
    } else {
        let kinds = unread.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ");
        Read::Not(format!("the planner needs objects that cannot be read: {kinds}"))
    };
    let deployments = facts::deployments(connection).await?;
    Ok(Facts {
        now,
        planned,
        unread,
        definitions: facts::definitions(connection).await?,
        earlier: facts::earlier(connection).await?,
        lease: facts::lease(connection).await?,
        karpenter: facts::karpenter(&deployments),
        other_deployment: facts::other_deployment(connection, now).await?,
        access: access(cluster_name).await,
        quotas: quotas(cluster_name).await,
        surges: facts::surges(connection, &deployments).await?,
        deployment_options: facts::deployment_options(&deployments),
        prefix_delegation: facts::prefix_delegation(connection).await?,
        view: snapshot.view,
    })
}

#[cfg(feature = "aws")]
async fn access(cluster_name: Option<&str>) -> Read<Access> {
    let Some(name) = cluster_name else {
        return Read::Not(NO_NAME.to_owned());
    };
    let config = nodeless_aws::load_config().await;
    match nodeless_eks::authentication(&config, name).await {
        Ok(read) => Read::Done(Access {
            cluster: name.to_owned(),
            mode: read.mode,
            entries: read
                .entries
                .into_iter()
                .map(|entry| nodeless_doctor::AccessEntry { principal: entry.principal, kind: entry.kind })
                .collect(),
        }),
        Err(error) => Read::Not(error.to_string()),
    }
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature `aws` it waits for EKS")]
async fn access(_: Option<&str>) -> Read<Access> {
    Read::Not("this build does not include the AWS SDK".to_owned())
}

/// The quotas of the account. With a cluster's name, the environment is known to be that of its account and region.
#[cfg(feature = "aws")]
async fn quotas(cluster_name: Option<&str>) -> Read<Vec<Quota>> {
    if cluster_name.is_none() {
        return Read::Not(NO_NAME.to_owned());
    }
    match nodeless_ec2::quotas(&nodeless_aws::load_config().await).await {
        Ok(listed) => {
            let quotas =
                listed.iter().filter_map(|one| Quota::new(&one.name, &one.code, one.value)).collect::<Vec<_>>();
            if quotas.is_empty() {
                return Read::Not("Service Quotas lists no quota of vCPUs for EC2".to_owned());
            }
            Read::Done(quotas)
        }
        Err(error) => Read::Not(error.to_string()),
    }
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the feature `aws` it waits for Service Quotas")]
async fn quotas(_: Option<&str>) -> Read<Vec<Quota>> {
    Read::Not("this build does not include the AWS SDK".to_owned())
}
