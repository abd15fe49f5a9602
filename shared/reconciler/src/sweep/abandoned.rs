//! Nodes that only their finalizer keeps.

use super::{Read, SweepReport, Sweeper};
use jiff::Timestamp;
use nodeless_lifecycle::{Collection, is_proved_gone};
use nodeless_model::{EndedNode, Instance};
use nodeless_ports::PortError;
use std::collections::{BTreeMap, BTreeSet};

impl Sweeper {
    /// What to collect, without the nodes whose instances are not proved to be gone.
    pub(super) async fn without_doubt(
        &self,
        found: Vec<Collection>,
        read: &Read,
        report: &mut SweepReport,
    ) -> Vec<Collection> {
        let ids: Vec<String> = found.iter().filter_map(instance_of_node).map(str::to_owned).collect();
        if ids.is_empty() {
            return found;
        }
        let gone = self.gone(&ids, read).await.unwrap_or_else(|error| {
            report.problems.push(format!("instances of nodes without a claim: {error}"));
            BTreeSet::new()
        });
        found.into_iter().filter(|one| instance_of_node(one).is_none_or(|id| gone.contains(id))).collect()
    }

    /// The instances that are gone and were of nodeless: EC2 is asked by their ids, and the table for records of their ends.
    async fn gone(&self, ids: &[String], read: &Read) -> Result<BTreeSet<String>, PortError> {
        let described = self.cloud.instances(ids).await?;
        let described: BTreeMap<&str, &Instance> = described.iter().map(|one| (one.id.as_str(), one)).collect();
        let created =
            read.nodes.iter().filter(|node| node.instance_id().is_some_and(|id| ids.iter().any(|one| one == id)));
        let since = created.map(|node| node.created.unwrap_or(Timestamp::UNIX_EPOCH)).min();
        let ended: Vec<EndedNode> = self.claims.ended_nodes(since.unwrap_or(Timestamp::UNIX_EPOCH)).await?;
        let recorded = |id: &str| ended.iter().any(|node| node.instance_id == id);
        let is_gone = |id: &&String| {
            is_proved_gone(described.get(id.as_str()).copied(), recorded(id), &self.settings.cluster_name)
        };
        Ok(ids.iter().filter(is_gone).cloned().collect())
    }
}

fn instance_of_node(collection: &Collection) -> Option<&str> {
    match collection {
        Collection::ReleaseNode { instance, .. } => Some(instance),
        _ => None,
    }
}
