//! Capacity reservations, and the nodes in them.

use crate::objects::cluster::Cluster;
use crate::text::{counted, until};
use jiff::Timestamp;
use nodeless_model::managed::may_be_managed;
use nodeless_model::{StringMap, labels};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A capacity reservation that EC2NodeClasses select, or that nodes are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationRow {
    /// The id.
    pub id: String,
    /// The EC2NodeClasses that select it; none if it ended, or if none selects it any more.
    pub node_classes: Vec<String>,
    /// The instance type.
    pub instance_type: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// `default` or `capacity-block`.
    pub reservation_type: Option<String>,
    /// Whether its owner may reclaim its instances.
    pub interruptible: bool,
    /// `active`, or `expiring`: nothing is launched into it any more. `null` if no EC2NodeClass selects it.
    pub state: Option<String>,
    /// When it ends; `null` if it has no end.
    pub ends: Option<Timestamp>,
    /// The number of Nodes in it, and of NodeClaims without a Node.
    pub nodes: usize,
    /// The same by NodePool.
    pub node_pools: BTreeMap<String, usize>,
    /// The row in words.
    pub text: String,
}

impl ReservationRow {
    /// Whether nothing is launched into it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.as_deref() != Some("active")
    }

    fn add(&mut self, own: &StringMap) {
        let label = |key: &str| own.get(key).cloned();
        self.nodes += 1;
        let node_pool = label(labels::NODE_POOL).filter(|_| may_be_managed(own));
        *self.node_pools.entry(node_pool.unwrap_or_default()).or_default() += 1;
        for (field, key) in [
            (&mut self.instance_type, labels::INSTANCE_TYPE),
            (&mut self.zone, labels::ZONE),
            (&mut self.reservation_type, labels::CAPACITY_RESERVATION_TYPE),
        ] {
            if field.is_none() {
                *field = label(key);
            }
        }
        self.interruptible |= label(labels::CAPACITY_RESERVATION_INTERRUPTIBLE).as_deref() == Some("true");
    }

    fn sentence(&self, now: Timestamp) -> String {
        let mut kind: Vec<&str> = [&self.instance_type, &self.zone].into_iter().flatten().map(String::as_str).collect();
        if self.reservation_type.as_deref() == Some("capacity-block") {
            kind.push("capacity block");
        }
        if self.interruptible {
            kind.push("interruptible");
        }
        let state = match self.state.as_deref() {
            None => ", not selected by an EC2NodeClass".to_owned(),
            Some("active") => String::new(),
            Some(other) => format!(", {other}"),
        };
        let ends = match self.ends {
            Some(end) if end <= now => format!(", ended at {end:.0}"),
            Some(end) => format!(", ends in {} at {end:.0}", until(end, now)),
            None => String::new(),
        };
        let by_pool: Vec<String> = self.node_pools.iter().map(|(pool, count)| format!("{pool} {count}")).collect();
        let by_pool = if by_pool.is_empty() { String::new() } else { format!(" ({})", by_pool.join(", ")) };
        let classes = match &self.node_classes[..] {
            [] => String::new(),
            [one] => format!(" of EC2NodeClass {one}"),
            several => format!(" of EC2NodeClasses {}", several.join(", ")),
        };
        let nodes = counted(self.nodes, "node");
        format!("{}{classes}: {}{state}{ends}, {nodes}{by_pool}", self.id, kind.join(" "))
    }
}

/// The reservations by EC2NodeClass and id; those that none selects are last.
pub(crate) fn reservations(cluster: &Cluster, now: Timestamp) -> Vec<ReservationRow> {
    let mut rows: BTreeMap<&str, ReservationRow> = BTreeMap::new();
    for class in cluster.classes.values() {
        for selected in &class.reservations {
            let row = rows.entry(&selected.id).or_insert_with(|| ReservationRow {
                id: selected.id.clone(),
                instance_type: selected.instance_type.clone(),
                zone: selected.availability_zone.clone(),
                reservation_type: selected.reservation_type.clone(),
                interruptible: selected.interruptible.unwrap_or(false),
                state: selected.state.clone(),
                ends: selected.end_time,
                ..ReservationRow::default()
            });
            row.node_classes.push(class.name.clone());
        }
    }
    for own in in_reservations(cluster) {
        let Some(id) = own.get(labels::CAPACITY_RESERVATION_ID) else { continue };
        let row = rows.entry(id).or_insert_with(|| ReservationRow { id: id.clone(), ..ReservationRow::default() });
        row.add(own);
    }
    let mut rows: Vec<ReservationRow> = rows.into_values().collect();
    rows.iter_mut().for_each(|row| row.text = row.sentence(now));
    rows.sort_by(|one, other| {
        let key = |row: &ReservationRow| (row.node_classes.is_empty(), row.node_classes.first().cloned());
        key(one).cmp(&key(other)).then_with(|| one.id.cmp(&other.id))
    });
    rows
}

/// The labels of reserved Nodes, and of reserved NodeClaims without a Node.
fn in_reservations(cluster: &Cluster) -> impl Iterator<Item = &StringMap> {
    let nodes = || cluster.nodes.values();
    let joined: BTreeSet<&str> =
        nodes().flat_map(|node| [Some(node.name.as_str()), node.provider_id.as_deref()]).flatten().collect();
    let has_node = move |known: Option<&str>| known.is_some_and(|it| joined.contains(it));
    let claims = cluster
        .claims
        .values()
        .filter(move |claim| !has_node(claim.node.as_deref()) && !has_node(claim.provider_id.as_deref()));
    let all = nodes().map(|node| &node.labels).chain(claims.map(|claim| &claim.labels));
    all.filter(|own| own.get(labels::CAPACITY_TYPE).is_some_and(|kind| kind == "reserved"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim_value, cluster, node_value};
    use crate::line::Line;
    use crate::objects::decode::ShownKind;
    use crate::picture::Picture;
    use crate::plain::sentences;
    use crate::screen::Screen;
    use crate::table::body;
    use nodeless_catalog::Catalog;
    use serde_json::{Value, json};

    fn class(name: &str, reservations: &Value) -> (ShownKind, Value) {
        (
            ShownKind::NodeClass,
            json!({ "metadata": { "name": name }, "status": { "capacityReservations": reservations } }),
        )
    }

    fn reserved(mut object: Value, id: &str, pool: &str) -> Value {
        let own = object["metadata"]["labels"].as_object_mut().unwrap();
        own.insert(labels::CAPACITY_TYPE.into(), json!("reserved"));
        own.insert(labels::CAPACITY_RESERVATION_ID.into(), json!(id));
        own.insert(labels::NODE_POOL.into(), json!(pool));
        object
    }

    fn example() -> Picture {
        let large = json!({
            "id": "cr-2", "instanceType": "m5.large", "availabilityZone": "us-east-1a", "ownerID": "111122223333",
            "instanceMatchCriteria": "targeted", "reservationType": "default", "state": "active"
        });
        let block = json!({
            "id": "cr-1", "instanceType": "p5.48xlarge", "availabilityZone": "us-east-1b", "ownerID": "111122223333",
            "instanceMatchCriteria": "targeted", "reservationType": "capacity-block", "state": "expiring",
            "endTime": "2026-01-01T00:35:00Z", "field of a later version": {}
        });
        let joined = reserved(claim_value("claim-a", Some("a"), &["Initialized"]), "cr-2", "default");
        let cluster = cluster(&[
            class("search", &json!([block, large])),
            class("web", &json!([large])),
            (ShownKind::Node, reserved(node_value("a", "m5.large"), "cr-2", "default")),
            (ShownKind::Node, reserved(node_value("b", "m5.large"), "cr-2", "other")),
            (ShownKind::Node, reserved(node_value("c", "c5.large"), "cr-9", "default")),
            (ShownKind::Node, node_value("d", "m5.large")),
            (ShownKind::NodeClaim, joined),
            (ShownKind::NodeClaim, reserved(claim_value("claim-new", None, &[]), "cr-2", "default")),
        ]);
        Picture::new(&cluster, &Catalog::embedded().unwrap(), at(5))
    }

    #[test]
    fn reservations_have_their_nodes_by_node_pool_and_their_end() {
        let picture = example();
        let texts: Vec<&str> = picture.reservations.iter().map(|row| row.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "cr-1 of EC2NodeClass search: p5.48xlarge us-east-1b capacity block, expiring, ends in 30m at \
                 2026-01-01T00:35:00Z, 0 nodes",
                "cr-2 of EC2NodeClasses search, web: m5.large us-east-1a, 3 nodes (default 2, other 1)",
                "cr-9: c5.large us-east-1a, not selected by an EC2NodeClass, 1 node (default 1)",
            ]
        );
        let json = serde_json::to_value(&picture).unwrap();
        let first = &json["reservations"][0];
        assert_eq!((&first["state"], &first["ends"]), (&json!("expiring"), &json!("2026-01-01T00:35:00Z")));
        assert_eq!(json["reservations"][1]["nodePools"], json!({ "default": 2, "other": 1 }));
        assert_eq!(json["nodeClasses"][0], json!({ "name": "search", "notReady": null }));
    }

    #[test]
    fn the_table_and_the_sentences_have_them() {
        let picture = example();
        let lines: Vec<String> = body(&picture, &Screen::default(), 200).iter().map(Line::text).collect();
        let heading = lines.iter().position(|line| line == "Capacity reservations (3)").unwrap();
        let page = include_str!("../../../../docs/view.md");
        let example = lines[heading..heading + 4].join("\n");
        assert!(page.contains(&example), "the example of docs/view.md is not {example}");
        let sentence =
            "Capacity reservation cr-9: c5.large us-east-1a, not selected by an EC2NodeClass, 1 node (default 1).";
        assert!(sentences(&picture).iter().any(|line| line == sentence), "{:?}", sentences(&picture));
        let without = Picture::new(
            &cluster(&[(ShownKind::Node, node_value("a", "m5.large"))]),
            &Catalog::embedded().unwrap(),
            at(5),
        );
        let lines = body(&without, &Screen::default(), 200);
        assert!(!lines.iter().any(|line| line.text().contains("Capacity reservation")), "there are none");
    }
}
