//! Which nodes can use a device.

use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{Requirement, RequirementError, StringMap};
use serde::{Deserialize, Serialize};

/// The field of nodes that can be selected.
pub(crate) const NAME_FIELD: &str = "metadata.name";

/// A selector of nodes, as in ResourceSlices and allocations: any term suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelector {
    /// The alternatives.
    #[serde(default)]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// The conditions of a term: all must hold. A term without conditions selects no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// Conditions for labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<RequirementTerm>,
    /// Conditions for the name of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<RequirementTerm>,
}

/// A node, as far as slices select it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The name of the Node; `None` for a node that is not registered yet.
    pub name: Option<&'a str>,
    /// The labels of the node.
    pub labels: &'a StringMap,
}

impl NodeSelector {
    /// The selector of the node with this name.
    #[must_use]
    pub fn of_node(name: &str) -> Self {
        let field = RequirementTerm {
            key: NAME_FIELD.to_owned(),
            operator: nodeless_model::Operator::In,
            values: vec![name.to_owned()],
            min_values: None,
        };
        Self {
            node_selector_terms: vec![NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![field] }],
        }
    }

    /// Whether it selects the node.
    ///
    /// # Errors
    /// Where a condition is not valid.
    pub fn matches(&self, place: &Place<'_>) -> Result<bool, RequirementError> {
        for term in &self.node_selector_terms {
            if term.matches(place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl NodeSelectorTerm {
    fn matches(&self, place: &Place<'_>) -> Result<bool, RequirementError> {
        let is_empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let mut all = !is_empty;
        for condition in &self.match_expressions {
            let requirement = Requirement::from_term(condition)?;
            all &= place
                .labels
                .get(&condition.key)
                .map_or_else(|| requirement.allows_absence(), |value| requirement.has(value));
        }
        for condition in &self.match_fields {
            let requirement = Requirement::from_term(condition)?;
            all &= condition.key == NAME_FIELD && place.name.is_some_and(|name| requirement.has(name));
        }
        Ok(all)
    }
}
