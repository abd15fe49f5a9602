//! Reads the facts about a cluster.

use super::planned::planned;
use crate::error::CliError;
use crate::plan::live;
use jiff::Timestamp;
use nodeless_catalog::Catalog;
use nodeless_doctor::{Access, Facts, Read};
use nodeless_kubernetes::{Connection, facts};

/// Reads the facts. What the user may not read is part of them.
///
/// # Errors
/// When the cluster cannot be reached.
pub(crate) async fn read(
    connection: &Connection,
    catalog: Catalog,
    cluster_name: Option<&str>,
) -> Result<Facts, CliError> {
    let (reader, unread) = live::read_permitted(connection).await?;
    let snapshot = reader.finish();
    // The clock of `nodeless local --speed` is ahead of the system clock.
    let now = Timestamp::now().max(snapshot.latest);
    let planned = if unread.is_empty() {
        planned(&snapshot.view, &snapshot.claims, &catalog, now)
    } else {
        let kinds = unread.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>().join(", ");
        Read::Not(format!("the planner needs objects that cannot be read: {kinds}"))
    };
    let karpenter = facts::karpenter(connection).await?;
    let namespaces = match &karpenter {
        Read::Done(found) => found.iter().map(|workload| workload.namespace.clone()).collect(),
        Read::Not(_) => Vec::new(),
    };
    Ok(Facts {
        now,
        planned,
        unread,
        definitions: facts::definitions(connection).await?,
        earlier: facts::earlier(connection).await?,
        lease: facts::lease(connection, namespaces).await?,
        karpenter,
        access: access(cluster_name).await,
        quotas: Read::Not("nodeless does not read the quotas of an account".to_owned()),
        view: snapshot.view,
    })
}

#[cfg(feature = "aws")]
async fn access(cluster_name: Option<&str>) -> Read<Access> {
    let Some(name) = cluster_name else {
        return Read::Not("the checks in AWS need the name of the cluster; give --cluster-name".to_owned());
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
