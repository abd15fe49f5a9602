//! Parameters of the query protocol: `Filter.1.Name=…` becomes a tree, and the tree becomes a request.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, DeserializeOwned, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor};

use super::error::Ec2Error;

/// A parameter: a value, or parameters by name or number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QueryNode {
    /// A value, always text.
    Leaf(String),
    /// Nested parameters.
    Branch(BTreeMap<String, QueryNode>),
}

impl QueryNode {
    /// The tree of form-encoded parameters, without `Action` and `Version`, which are returned beside it.
    ///
    /// # Errors
    /// When one parameter is both a value and a tree, or occurs twice.
    pub(crate) fn parse(form: &[u8]) -> Result<(Option<String>, Self), Ec2Error> {
        let mut root = Self::Branch(BTreeMap::new());
        let mut action = None;
        for (name, value) in form_urlencoded::parse(form) {
            match &*name {
                "Action" => action = Some(value.into_owned()),
                "Version" => {}
                // A presigned request contains its signature in the parameters.
                name if name.starts_with("X-Amz-") => {}
                name => root.insert(name, name, value.into_owned())?,
            }
        }
        Ok((action, root))
    }

    fn insert(&mut self, whole: &str, path: &str, value: String) -> Result<(), Ec2Error> {
        let conflict = || {
            let message = format!("The parameter {whole} is given twice, or as a value and as a structure.");
            Ec2Error::new("InvalidParameterCombination", message)
        };
        let Self::Branch(members) = self else { return Err(conflict()) };
        match path.split_once('.') {
            Some((first, rest)) => {
                let below = members.entry(first.to_owned()).or_insert_with(|| Self::Branch(BTreeMap::new()));
                below.insert(whole, rest, value)
            }
            None => match members.insert(path.to_owned(), Self::Leaf(value)) {
                None => Ok(()),
                Some(_) => Err(conflict()),
            },
        }
    }

    /// The request in the parameters.
    ///
    /// # Errors
    /// EC2's errors for a parameter that is unknown or of the wrong kind.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Ec2Error> {
        T::deserialize(self).map_err(|error| error.0)
    }

    /// Renames the members of one member's tree.
    pub(crate) fn rename_below(&mut self, member: &str, rename: &dyn Fn(&str, &str) -> String) {
        if let Self::Branch(members) = self
            && let Some(node) = members.get_mut(member)
        {
            node.rename(member, rename);
        }
    }

    fn rename(&mut self, parent: &str, rename: &dyn Fn(&str, &str) -> String) {
        let Self::Branch(members) = self else { return };
        *members = std::mem::take(members)
            .into_iter()
            .map(|(name, mut node)| {
                let is_number = name.parse::<u32>().is_ok();
                node.rename(if is_number { parent } else { &name }, rename);
                (if is_number { name } else { rename(parent, &name) }, node)
            })
            .collect();
    }

    /// The entries of a list: `1`, `2`… or `member.1`, `member.2`…, or a single value.
    fn list(&self) -> Option<Vec<&Self>> {
        let Self::Branch(members) = self else { return Some(vec![self]) };
        if let (1, Some(wrapped)) = (members.len(), members.get("member")) {
            return wrapped.list();
        }
        let numbered = members.iter().map(|(name, node)| Some((name.parse::<u32>().ok()?, node)));
        let mut numbered = numbered.collect::<Option<Vec<_>>>()?;
        numbered.sort_by_key(|(number, _)| *number);
        Some(numbered.into_iter().map(|(_, node)| node).collect())
    }
}

/// Why parameters could not be read.
#[derive(Debug)]
pub(crate) struct ReadError(Ec2Error);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(Ec2Error::new("InvalidParameterValue", message.to_string()))
    }

    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Self(Ec2Error::new("UnknownParameter", format!("The parameter {field} is not recognized")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self(Ec2Error::missing(field))
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $kind:ty,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            match self {
                QueryNode::Leaf(text) => match text.parse::<$kind>() {
                    Ok(value) => visitor.$visit(value),
                    Err(_) => Err(de::Error::invalid_value(Unexpected::Str(text), &visitor)),
                },
                QueryNode::Branch(_) => Err(de::Error::invalid_type(Unexpected::Map, &visitor)),
            }
        })*
    };
}

impl<'de> de::Deserializer<'de> for &'de QueryNode {
    type Error = ReadError;

    parsed! {
        deserialize_bool visit_bool bool,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_f64 visit_f64 f64,
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            QueryNode::Leaf(text) => visitor.visit_str(text),
            QueryNode::Branch(members) => match self.list() {
                Some(_) if !members.is_empty() => self.deserialize_seq(visitor),
                _ => self.deserialize_map(visitor),
            },
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let list = self.list().ok_or_else(|| de::Error::invalid_type(Unexpected::Map, &visitor))?;
        visitor.visit_seq(List(list.into_iter()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self {
            QueryNode::Branch(members) => visitor.visit_map(Members { members: members.iter(), value: None }),
            QueryNode::Leaf(text) => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u128 f32 char str string bytes byte_buf unit unit_struct newtype_struct tuple tuple_struct enum
        identifier ignored_any
    }
}

struct List<'de>(std::vec::IntoIter<&'de QueryNode>);

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = ReadError;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        self.0.next().map(|node| seed.deserialize(node)).transpose()
    }
}

struct Members<'de> {
    members: std::collections::btree_map::Iter<'de, String, QueryNode>,
    value: Option<&'de QueryNode>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = ReadError;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some((name, node)) = self.members.next() else { return Ok(None) };
        self.value = Some(node);
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let node = self.value.take().ok_or_else(|| de::Error::custom("a value without a name"))?;
        seed.deserialize(node)
    }
}
