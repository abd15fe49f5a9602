//! Which nodes are shown, with which labels, and how they are grouped.

use crate::objects::node::NodeRow;
use nodeless_model::label_query::LabelQuery;
use serde::Serialize;

/// What the user chose to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Viewing {
    /// The nodes that are shown, with their pods.
    pub selector: LabelQuery,
    /// The keys of the labels that are shown of each node.
    pub label_columns: Vec<String>,
    /// How nodes are grouped.
    pub group_by: GroupBy,
}

/// What the nodes of a group have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupBy {
    /// The NodePool.
    #[default]
    #[serde(rename = "nodepool")]
    NodePool,
    /// The zone.
    Zone,
    /// The instance type.
    Type,
    /// The capacity type.
    CapacityType,
}

impl GroupBy {
    /// All, in the order in which the key `b` goes through them.
    pub const ALL: [Self; 4] = [Self::NodePool, Self::Zone, Self::Type, Self::CapacityType];

    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        let mut all = Self::ALL.into_iter().cycle();
        all.by_ref().find(|by| *by == self);
        all.next().unwrap_or_default()
    }

    /// The name of the property.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodePool => "NodePool",
            Self::Zone => "Zone",
            Self::Type => "Instance type",
            Self::CapacityType => "Capacity type",
        }
    }

    /// The value of a node.
    #[must_use]
    pub const fn value(self, node: &NodeRow) -> &Option<String> {
        match self {
            Self::NodePool => &node.node_pool,
            Self::Zone => &node.zone,
            Self::Type => &node.instance_type,
            Self::CapacityType => &node.capacity_type,
        }
    }

    /// The heading of the nodes with a value, or without one.
    pub(crate) fn heading(self, value: Option<&str>) -> String {
        match (self, value) {
            (_, Some(value)) => format!("{} {value}", self.name()),
            (Self::NodePool, None) => "Nodes of no NodePool".to_owned(),
            (_, None) => format!("Nodes without {}", self.name().to_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_through_all_and_back_to_the_first() {
        let all: Vec<GroupBy> = std::iter::successors(Some(GroupBy::NodePool), |by| Some(by.next())).take(5).collect();
        assert_eq!(all[..4], GroupBy::ALL);
        assert_eq!(all[4], GroupBy::NodePool);
    }
}
