//! The tree.

use super::resolve;
use serde_json::Value;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum YamlNode {
    Scalar(Scalar),
    Map(Map),
    Seq(Seq),
}

/// The notation of a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The text of the source, on one line.
    Raw(String),
    /// A string in literal style (`|`).
    Block,
    /// A string, quoted where needed.
    Text,
    /// A number, a boolean or null.
    Bare,
}

/// A scalar and its notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    /// The value after unescaping.
    pub(crate) text: String,
    pub(crate) form: Form,
}

/// A mapping.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map {
    /// Whether it is written in braces.
    pub(crate) flow: bool,
    pub(crate) entries: Vec<MapEntry>,
    /// Comments after the last entry.
    pub(crate) tail: Vec<String>,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) comments: Comments,
    pub(crate) key: Scalar,
    pub(crate) value: YamlNode,
}

/// A sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seq {
    /// Whether it is written in brackets.
    pub(crate) flow: bool,
    pub(crate) items: Vec<Item>,
    /// Comments after the last item.
    pub(crate) tail: Vec<String>,
}

/// An item of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) comments: Comments,
    pub(crate) value: YamlNode,
}

/// The comments of an entry or item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comments {
    /// Whether a blank line precedes the entry or item.
    pub(crate) blank: bool,
    /// The lines above it, each with its `#`, or empty.
    pub(crate) above: Vec<String>,
    /// At the end of its line, with its `#`.
    pub(crate) right: Option<String>,
    /// The number of its place in the source, from 1, until comments are attached.
    pub(super) place: usize,
}

impl Scalar {
    /// A string, which is quoted where needed.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), form: Form::Text }
    }

    /// The value that Kubernetes reads.
    pub(crate) fn to_value(&self) -> Value {
        match &self.form {
            Form::Raw(raw) if !raw.starts_with(['"', '\'']) => resolve::plain(&self.text),
            Form::Bare => resolve::plain(&self.text),
            Form::Raw(_) | Form::Block | Form::Text => Value::String(self.text.clone()),
        }
    }
}

impl YamlNode {
    /// A string.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Scalar(Scalar::text(text))
    }

    /// A whole number.
    pub(crate) fn number(number: i64) -> Self {
        Self::Scalar(Scalar { text: number.to_string(), form: Form::Bare })
    }

    /// A sequence in brackets of strings.
    pub(crate) fn texts(texts: &[&str]) -> Self {
        let items = texts.iter().map(|text| Item::from(Self::text(*text))).collect();
        Self::Seq(Seq { flow: true, items, tail: Vec::new() })
    }

    /// A mapping of these entries.
    pub(crate) fn map(entries: impl IntoIterator<Item = (&'static str, Self)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| MapEntry::new(key, value)).collect();
        Self::Map(Map { entries, ..Map::default() })
    }

    /// A block sequence of these values.
    pub(crate) fn seq(values: impl IntoIterator<Item = Self>) -> Self {
        Self::Seq(Seq { items: values.into_iter().map(Item::from).collect(), ..Seq::default() })
    }

    pub(crate) fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            Self::Scalar(_) | Self::Seq(_) => None,
        }
    }

    pub(crate) fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Map(map) => Some(map),
            Self::Scalar(_) | Self::Seq(_) => None,
        }
    }

    pub(crate) fn as_seq(&self) -> Option<&Seq> {
        match self {
            Self::Seq(seq) => Some(seq),
            Self::Scalar(_) | Self::Map(_) => None,
        }
    }

    pub(crate) fn as_seq_mut(&mut self) -> Option<&mut Seq> {
        match self {
            Self::Seq(seq) => Some(seq),
            Self::Scalar(_) | Self::Map(_) => None,
        }
    }

    /// The text of a scalar that is not null.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) if !self.is_null() => Some(&scalar.text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(scalar) if scalar.to_value().is_null())
    }

    /// Whether it has no entry, item or value.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Scalar(_) => self.is_null(),
            Self::Map(map) => map.entries.is_empty(),
            Self::Seq(seq) => seq.items.is_empty(),
        }
    }

    /// The value at a path of keys.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.as_map()?.get(key))
    }

    /// The value as JSON.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Scalar(scalar) => scalar.to_value(),
            Self::Map(map) => {
                map.entries.iter().map(|entry| (entry.key.text.clone(), entry.value.to_value())).collect()
            }
            Self::Seq(seq) => seq.items.iter().map(|item| item.value.to_value()).collect(),
        }
    }
}

impl From<YamlNode> for Item {
    fn from(value: YamlNode) -> Self {
        Self { comments: Comments::default(), value }
    }
}

impl MapEntry {
    pub(crate) fn new(key: &str, value: YamlNode) -> Self {
        Self { comments: Comments::default(), key: Scalar::text(key), value }
    }

    /// Renames the key and keeps the comments.
    pub(crate) fn renamed(mut self, key: &str) -> Self {
        self.key = Scalar::text(key);
        self
    }
}

impl Map {
    pub(crate) fn position(&self, key: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.key.text == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&YamlNode> {
        Some(&self.entries.get(self.position(key)?)?.value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut YamlNode> {
        let position = self.position(key)?;
        Some(&mut self.entries.get_mut(position)?.value)
    }

    /// Removes an entry. Comments above it are about it, and go with it.
    pub(crate) fn take(&mut self, key: &str) -> Option<MapEntry> {
        let position = self.position(key)?;
        Some(self.entries.remove(position))
    }

    /// Sets a value in place, or adds it at the end.
    pub(crate) fn set(&mut self, key: &str, value: YamlNode) {
        match self.get_mut(key) {
            Some(found) => *found = value,
            None => self.entries.push(MapEntry::new(key, value)),
        }
    }

    /// The mapping under a key, made where there is none.
    pub(crate) fn child(&mut self, key: &str) -> Option<&mut Map> {
        if self.get(key).is_none_or(YamlNode::is_null) {
            self.set(key, YamlNode::Map(Map::default()));
        }
        self.get_mut(key)?.as_map_mut()
    }
}
