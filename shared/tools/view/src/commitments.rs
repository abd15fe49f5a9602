//! What is paid for the nodes with commitments.

use crate::objects::cluster::Cluster;
use crate::objects::node::NodeRow;
use crate::text::dollars;
use nodeless_catalog::{Catalog, capacity_type_of};
use nodeless_commitments::{Commitments, Usage, apply};
use nodeless_model::{CapacityType, StringMap, labels};
use serde::Serialize;

/// Savings Plans and Reserved Instances, applied to the nodes, in dollars an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Committed {
    /// What the commitments cost, used or not.
    pub committed_per_hour: f64,
    /// The part of on-demand prices that they cover.
    pub covered_per_hour: f64,
    /// What is paid besides them.
    pub uncovered_per_hour: f64,
    /// The part of them that no node uses.
    pub unused_per_hour: f64,
}

impl Committed {
    /// What commitments cover of nodes.
    pub(crate) fn new(nodes: &[NodeRow], cluster: &Cluster, commitments: &Commitments, prices: &Catalog) -> Self {
        let labels_of = |row: &NodeRow| cluster.nodes.get(&(String::new(), row.name.clone())).map(|node| &node.labels);
        let usage = |(own, row): (&StringMap, &NodeRow)| {
            let label = |key: &str| own.get(key).cloned().unwrap_or_default();
            let (instance_type, zone) = (label(labels::INSTANCE_TYPE), label(labels::ZONE));
            let capacity_type = capacity_type_of(own)?;
            let price = match capacity_type {
                // A capacity reservation is billed at the on-demand price.
                CapacityType::Reserved => prices.dollars_per_hour(&instance_type, &zone, CapacityType::OnDemand),
                CapacityType::OnDemand | CapacityType::Spot => row.price_per_hour,
            };
            Some((instance_type, zone, capacity_type, own.get(labels::OS).is_none_or(|os| os == "linux"), price))
        };
        let nodes: Vec<_> = nodes.iter().filter_map(|row| usage((labels_of(row)?, row))).collect();
        let usages: Vec<Usage<'_>> = nodes
            .iter()
            .map(|(instance_type, zone, capacity_type, linux, price)| Usage {
                instance_type,
                zone,
                capacity_type: *capacity_type,
                linux: *linux,
                hours: 1.0,
                price: *price,
            })
            .collect();
        let bill = apply(&usages, commitments);
        Self {
            committed_per_hour: bill.committed(),
            covered_per_hour: bill.covered(),
            uncovered_per_hour: bill.uncovered(),
            unused_per_hour: bill.unused(),
        }
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "commitments of {} cover {}, {} is uncovered and {} of them is unused",
            dollars(self.committed_per_hour),
            dollars(self.covered_per_hour),
            dollars(self.uncovered_per_hour),
            dollars(self.unused_per_hour)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, cluster, node_value};
    use crate::objects::decode::ShownKind;
    use crate::picture::Picture;
    use crate::plain::sentences;
    use crate::table::header;
    use nodeless_commitments::ReservedInstances;
    use serde_json::json;

    #[test]
    fn the_summary_has_what_commitments_cover() {
        let prices = Catalog::embedded().unwrap();
        let node = |name| {
            let mut node = node_value(name, "m5.large");
            node["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("on-demand");
            (ShownKind::Node, node)
        };
        let cluster = cluster(&[node("a"), node("b"), (ShownKind::Node, node_value("spot", "m5.large"))]);
        let picture = Picture::new(&cluster, &prices, at(5));
        let first = picture.nodes[0].clone();
        let commitments = |count: f64| Commitments {
            reserved: vec![ReservedInstances {
                id: "r".into(),
                instance_type: first.instance_type.clone().unwrap(),
                count,
                zone: first.zone.clone(),
                dollars_per_hour: count,
            }],
            ..Commitments::default()
        };
        let of = |count| picture.clone().with_commitments(&cluster, &commitments(count), &prices).commitments.unwrap();
        let price = first.price_per_hour.unwrap();
        let one = of(1.0);
        assert!((one.covered_per_hour - price).abs() < 1e-9 && one.unused_per_hour == 0.0, "{one:?}");
        assert!((one.uncovered_per_hour - (picture.totals.price_per_hour - price)).abs() < 1e-9, "{one:?}");
        assert!(of(9.0).unused_per_hour > 6.9);
        let picture = picture.clone().with_commitments(&cluster, &commitments(1.0), &prices);
        let line = picture.commitments.unwrap().text();
        assert!(header(&picture, "t", 200).iter().any(|one| one.text().contains(&line)), "{line}");
        assert!(sentences(&picture).iter().any(|sentence| sentence.contains(&line)), "{line}");
    }
}
