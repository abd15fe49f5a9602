//! Columns of extended resources and of labels.

use crate::objects::node::NodeRow;
use crate::picture::Picture;
use crate::text::fit;

/// The widest column.
const WIDEST: usize = 24;

/// A column of an extended resource or a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExtraColumn {
    pub(super) heading: String,
    pub(super) width: usize,
    key: Key,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Resource(String),
    Label(String),
}

/// The columns, as wide as their longest cell.
pub(super) fn columns(picture: &Picture) -> Vec<ExtraColumn> {
    let resources = picture.totals.load.extended.names().map(|name| Key::Resource(name.to_owned()));
    let keys = resources.chain(picture.label_columns.iter().cloned().map(Key::Label));
    let column = |key: Key| {
        let heading = key.heading();
        let longest = picture.nodes.iter().filter_map(|node| key.value(node)).map(|value| value.chars().count()).max();
        let width = longest.unwrap_or_default().max(heading.chars().count()).min(WIDEST);
        ExtraColumn { heading, width, key }
    };
    keys.map(column).collect()
}

impl ExtraColumn {
    pub(super) fn cell(&self, node: &NodeRow) -> String {
        fit(self.key.value(node).as_deref().unwrap_or("-"), self.width)
    }

    /// The value with its name; `None` if the node has none.
    pub(super) fn sentence(&self, node: &NodeRow) -> Option<String> {
        let (Key::Resource(name) | Key::Label(name)) = &self.key;
        Some(format!("{name} {}", self.key.value(node)?))
    }
}

impl Key {
    /// As `kubectl get -L` does: what follows the slash, in upper case.
    fn heading(&self) -> String {
        let (Self::Resource(name) | Self::Label(name)) = self;
        name.rsplit('/').next().unwrap_or(name).to_uppercase()
    }

    fn value(&self, node: &NodeRow) -> Option<String> {
        match self {
            Self::Resource(name) => node.load.extended.text(name),
            Self::Label(key) => node.labels.get(key).cloned(),
        }
    }
}
