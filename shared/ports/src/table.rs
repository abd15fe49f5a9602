//! The claims table, in the terms of DynamoDB: items under a partition key and a sort key, consistent reads, and writes on conditions,
//! alone or in one transaction. What is stored in it, and when, is in `nodeless-state`.

use crate::PortError;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of writes of a transaction:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html>.
pub const TRANSACTION_WRITES: usize = 100;
/// The maximum size of an item in bytes, names and values of its attributes together:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html>.
pub const ITEM_BYTES: usize = 400 * 1024;
/// The attribute with the time after which DynamoDB deletes an item, in seconds since 1970.
pub const EXPIRES: &str = "expires";
/// The attribute by which [`Table::find_by_instance`] finds an item.
pub const INSTANCE_ID: &str = "instanceId";

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// The size by which DynamoDB limits and charges it. A number counts as in
    /// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Number(number) => number.unsigned_abs().to_string().len().div_ceil(2) + 1 + usize::from(*number < 0),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// The attributes of an item, without its keys.
pub type Attributes = BTreeMap<String, Value>;

/// The partition key of an item, among those of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partition {
    /// The name of the cluster: all items but claims.
    Cluster,
    /// The name of the cluster and this number: claims, of which there are many.
    Claims(u32),
}

/// The keys of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The partition key.
    pub partition: Partition,
    /// The sort key.
    pub sort: String,
}

impl Key {
    /// The key of an item that is not a claim.
    pub fn of_cluster(sort: impl Into<String>) -> Self {
        Self { partition: Partition::Cluster, sort: sort.into() }
    }
}

/// An item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its keys.
    pub key: Key,
    /// All other attributes.
    pub attributes: Attributes,
}

impl Item {
    /// The size by which DynamoDB limits and charges it, without the partition key.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.bytes());
        "pksk".len() + self.key.sort.len() + attributes.sum::<usize>()
    }
}

/// A condition on the stored item. A comparison does not hold if the item or the attribute is missing, or is not a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No item has these keys.
    Missing,
    /// The item lacks this attribute, or is missing.
    Lacks(String),
    /// The attribute has this value.
    Is(String, Value),
    /// The number is this or less.
    AtMost(String, i64),
    /// The number is less than this.
    Below(String, i64),
    /// The number is greater than this.
    Above(String, i64),
    /// At least one of these holds.
    Any(Vec<Self>),
    /// Each of these holds. Without any, there is no condition.
    All(Vec<Self>),
}

impl Condition {
    /// No condition.
    pub const NONE: Self = Self::All(Vec::new());

    /// Whether there is no condition.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether the condition holds for the stored attributes; `None` if there is no item.
    #[must_use]
    pub fn holds(&self, stored: Option<&Attributes>) -> bool {
        let value = |name: &str| stored.and_then(|attributes| attributes.get(name));
        let number = |name: &str, compare: &dyn Fn(i64) -> bool| match value(name) {
            Some(Value::Number(number)) => compare(*number),
            _ => false,
        };
        match self {
            Self::Missing => stored.is_none(),
            Self::Lacks(name) => value(name).is_none(),
            Self::Is(name, expected) => value(name) == Some(expected),
            Self::AtMost(name, most) => number(name, &|number| number <= *most),
            Self::Below(name, bound) => number(name, &|number| number < *bound),
            Self::Above(name, bound) => number(name, &|number| number > *bound),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(stored)),
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(stored)),
        }
    }
}

/// What a write does to an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Replaces all attributes. Creates the item if it is missing.
    Put(Attributes),
    /// Sets these attributes and keeps the others. Creates the item if it is missing.
    Set(Attributes),
    /// Adds to these numbers; a missing one counts as zero. Creates the item if it is missing.
    Add(BTreeMap<String, i64>),
    /// Deletes the item. A missing item counts as success.
    Delete,
}

/// A write of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The item.
    pub key: Key,
    /// What it does.
    pub change: Change,
    /// Nothing is written unless this holds.
    pub condition: Condition,
}

impl Write {
    /// A write without a condition.
    #[must_use]
    pub const fn new(key: Key, change: Change) -> Self {
        Self { key, change, condition: Condition::NONE }
    }

    /// This write on a condition.
    #[must_use]
    pub fn on(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Everything is written.
    Written,
    /// Nothing is written: for each write, whether its condition failed.
    Refused(Vec<Option<Refusal>>),
}

/// A condition that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The item that it was evaluated on; `None` if it was missing.
    pub item: Option<Item>,
}

/// The items of a partition to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The partition.
    pub partition: Partition,
    /// The range of sort keys.
    pub keys: Range,
    /// Only so many items, those with the last keys first. Without it, all items in the order of their keys.
    pub last: Option<u32>,
    /// Whether the answer has every write that was done before. Otherwise it may lack the last ones, and costs half as much.
    pub consistent: bool,
}

/// A range of sort keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// All that begin with this.
    Prefix(String),
    /// From the first to the second, both included.
    Between(String, String),
}

impl Range {
    /// The first sort key that can be in the range. All others follow it without a gap.
    #[must_use]
    pub fn first(&self) -> &str {
        match self {
            Self::Prefix(first) | Self::Between(first, _) => first,
        }
    }

    /// Whether a sort key is in the range.
    #[must_use]
    pub fn contains(&self, sort: &str) -> bool {
        match self {
            Self::Prefix(prefix) => sort.starts_with(prefix),
            Self::Between(from, to) => (from.as_str()..=to.as_str()).contains(&sort),
        }
    }
}

/// The part of the claims table that belongs to one cluster.
///
/// `operation` names what a call is for, such as `claims update`; errors contain it.
#[async_trait]
pub trait Table: Send + Sync {
    /// The name of the table, which identifies the deployment that it belongs to.
    fn name(&self) -> &str;

    /// Reads an item consistently.
    ///
    /// # Errors
    /// When the table cannot be read, or an attribute is a number that is not whole.
    async fn get(&self, operation: &'static str, key: &Key) -> Result<Option<Item>, PortError>;

    /// Reads the existing items with these keys consistently, in no order.
    ///
    /// # Errors
    /// The same.
    async fn get_all(&self, operation: &'static str, keys: &BTreeSet<Key>) -> Result<Vec<Item>, PortError>;

    /// Reads ranges of items, consistently unless a query does without that, one range after the other in the answer. They are read concurrently.
    ///
    /// # Errors
    /// The same.
    async fn query(&self, operation: &'static str, queries: &[Query]) -> Result<Vec<Item>, PortError>;

    /// The keys of the claims with this [`INSTANCE_ID`], by an eventually consistent index.
    ///
    /// # Errors
    /// The same.
    async fn find_by_instance(&self, operation: &'static str, instance_id: &str) -> Result<Vec<Key>, PortError>;

    /// Writes up to [`TRANSACTION_WRITES`] items, all or none. No two writes may be of one item. A single write is not a
    /// transaction, which would cost twice as much.
    ///
    /// # Errors
    /// `Invalid` for an item above [`ITEM_BYTES`], no writes, too many, or two of one item; [`Conflict`](crate::ErrorKind::Conflict)
    /// or `Throttled` when other transactions write the same items; and when the table cannot be written. The write may then have
    /// succeeded.
    async fn write(&self, operation: &'static str, writes: Vec<Write>) -> Result<Outcome, PortError>;

    /// Replaces any number of items, each for itself and without a condition. No two may have the same key.
    ///
    /// # Errors
    /// When the table cannot be written. Some of the items may then have been written.
    async fn put_all(&self, operation: &'static str, items: Vec<Item>) -> Result<(), PortError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_holds_only_for_a_number() {
        let below = Condition::Below("n".into(), 3);
        let attributes = |value| Attributes::from([("n".to_owned(), value)]);
        assert!(below.holds(Some(&attributes(Value::Number(2)))));
        assert!(!below.holds(Some(&attributes(Value::Number(3)))));
        assert!(!below.holds(Some(&attributes(Value::Text("2".into())))));
        assert!(!below.holds(Some(&Attributes::new())) && !below.holds(None));
        assert!(Condition::Lacks("n".into()).holds(None) && Condition::Missing.holds(None));
        assert!(Condition::NONE.holds(None) && !Condition::Any(Vec::new()).holds(None));
    }

    #[test]
    fn an_item_has_the_size_of_its_names_and_values() {
        let item = Item {
            key: Key::of_cluster("plan"),
            attributes: Attributes::from([
                ("a".to_owned(), Value::Text("é".into())),
                ("b".to_owned(), Value::Number(-1234)),
                ("c".to_owned(), Value::Bytes(vec![0; 5])),
            ]),
        };
        // pk, sk and "plan"; then each name and value.
        assert_eq!(item.bytes(), 8 + (1 + 2) + (1 + 4) + (1 + 5));
    }
}
