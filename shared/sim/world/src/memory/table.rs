//! The claims table in memory, with the semantics of DynamoDB.

use async_trait::async_trait;
use jiff::Timestamp;
use nodeless_ports::table::{
    Attributes, Change, EXPIRES, INSTANCE_ID, ITEM_BYTES, Item, Key, Outcome, Query, Refusal, TRANSACTION_WRITES,
    Table, Value, Write,
};
use nodeless_ports::{ErrorKind, PortError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The claims table of one cluster. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryTable {
    name: String,
    stored: Arc<Mutex<Stored>>,
}

impl Default for MemoryTable {
    fn default() -> Self {
        Self::named("nodeless")
    }
}

/// All items of a table at one time.
#[derive(Clone, Debug)]
pub struct Backup(BTreeMap<Key, Attributes>);

#[derive(Debug, Default)]
struct Stored {
    items: BTreeMap<Key, Attributes>,
    /// The number of writes of each kind of item.
    writes: BTreeMap<String, u64>,
}

impl Stored {
    fn item(&self, key: &Key) -> Option<Item> {
        self.items.get(key).map(|attributes| Item { key: key.clone(), attributes: attributes.clone() })
    }

    /// Replaces the attributes of an item, or deletes it.
    fn replace(&mut self, key: Key, attributes: Option<Attributes>) {
        let kind = key.sort.split_once('#').map_or(key.sort.as_str(), |(kind, _)| kind);
        *self.writes.entry(kind.to_owned()).or_default() += 1;
        match attributes {
            Some(attributes) => self.items.insert(key, attributes),
            None => self.items.remove(&key),
        };
    }

    fn query(&self, query: &Query) -> Vec<Item> {
        let first = Key { partition: query.partition, sort: query.keys.first().to_owned() };
        let is_found = |key: &Key| key.partition == query.partition && query.keys.contains(&key.sort);
        let found = self.items.range(first..).take_while(|(key, _)| is_found(key));
        let item = |(key, attributes): (&Key, &Attributes)| Item { key: key.clone(), attributes: attributes.clone() };
        match query.last {
            None => found.map(item).collect(),
            Some(last) => {
                let found: Vec<_> = found.collect();
                found.into_iter().rev().take(last as usize).map(item).collect()
            }
        }
    }
}

/// The attributes after a change; `None` after a deletion.
fn changed(operation: &str, stored: Option<&Attributes>, change: Change) -> Result<Option<Attributes>, PortError> {
    let mut attributes = stored.cloned().unwrap_or_default();
    match change {
        Change::Put(new) => attributes = new,
        Change::Set(new) => attributes.extend(new),
        Change::Add(numbers) => {
            for (name, number) in numbers {
                match attributes.entry(name).or_insert(Value::Number(0)) {
                    Value::Number(sum) => *sum += number,
                    other => return Err(invalid(operation, format!("{other:?} is not a number"))),
                }
            }
        }
        Change::Delete => return Ok(None),
    }
    Ok(Some(attributes))
}

fn check_size(operation: &str, key: &Key, attributes: &Attributes) -> Result<(), PortError> {
    let bytes = Item { key: key.clone(), attributes: attributes.clone() }.bytes();
    if bytes <= ITEM_BYTES {
        return Ok(());
    }
    Err(invalid(operation, format!("the item takes {bytes} bytes, and at most {ITEM_BYTES} can be stored")))
}

fn invalid(operation: &str, message: String) -> PortError {
    PortError::new(ErrorKind::Invalid, operation, message)
}

impl MemoryTable {
    /// An empty table with this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), stored: Arc::default() }
    }

    /// The items of a query, without a call to the port.
    #[must_use]
    pub fn items(&self, query: &Query) -> Vec<Item> {
        self.lock().query(query)
    }

    /// The number of writes of items of a kind, such as `nodeclaim`.
    #[must_use]
    pub fn writes(&self, kind: &str) -> u64 {
        self.lock().writes.get(kind).copied().unwrap_or_default()
    }

    /// All items.
    #[must_use]
    pub fn backup(&self) -> Backup {
        Backup(self.lock().items.clone())
    }

    /// Replaces all items by those of a backup. Without it, the table is as one that was created again: empty.
    pub fn restore(&self, backup: Option<&Backup>) {
        let mut stored = self.lock();
        let items = backup.map(|backup| backup.0.clone()).unwrap_or_default();
        for key in stored.items.keys().cloned().collect::<Vec<_>>() {
            stored.replace(key, None);
        }
        for (key, attributes) in items {
            stored.replace(key, Some(attributes));
        }
    }

    /// Deletes the items that have expired, as DynamoDB does within a few days.
    pub fn delete_expired(&self, now: Timestamp) {
        let expired = |attributes: &Attributes| match attributes.get(EXPIRES) {
            Some(Value::Number(expires)) => *expires < now.as_second(),
            _ => false,
        };
        self.lock().items.retain(|_, attributes| !expired(attributes));
    }

    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Table for MemoryTable {
    fn name(&self) -> &str {
        &self.name
    }

    async fn get(&self, _operation: &'static str, key: &Key) -> Result<Option<Item>, PortError> {
        Ok(self.lock().item(key))
    }

    async fn get_all(&self, _operation: &'static str, keys: &BTreeSet<Key>) -> Result<Vec<Item>, PortError> {
        let stored = self.lock();
        Ok(keys.iter().filter_map(|key| stored.item(key)).collect())
    }

    async fn query(&self, _operation: &'static str, queries: &[Query]) -> Result<Vec<Item>, PortError> {
        let stored = self.lock();
        Ok(queries.iter().flat_map(|query| stored.query(query)).collect())
    }

    async fn find_by_instance(&self, _operation: &'static str, instance_id: &str) -> Result<Vec<Key>, PortError> {
        let is = |attributes: &Attributes| match attributes.get(INSTANCE_ID) {
            Some(Value::Text(id)) => id == instance_id,
            _ => false,
        };
        let stored = self.lock();
        Ok(stored.items.iter().filter(|(_, attributes)| is(attributes)).map(|(key, _)| key.clone()).collect())
    }

    async fn write(&self, operation: &'static str, writes: Vec<Write>) -> Result<Outcome, PortError> {
        let keys: BTreeSet<&Key> = writes.iter().map(|write| &write.key).collect();
        if keys.len() != writes.len() || !(1..=TRANSACTION_WRITES).contains(&writes.len()) {
            return Err(invalid(
                operation,
                format!("{} writes of {} items are no transaction", writes.len(), keys.len()),
            ));
        }
        let mut stored = self.lock();
        let refusal = |write: &Write| {
            let failed = !write.condition.holds(stored.items.get(&write.key));
            failed.then(|| Refusal { item: stored.item(&write.key) })
        };
        let refusals: Vec<Option<Refusal>> = writes.iter().map(refusal).collect();
        if refusals.iter().any(Option::is_some) {
            return Ok(Outcome::Refused(refusals));
        }
        let mut after = Vec::with_capacity(writes.len());
        for Write { key, change, .. } in writes {
            let attributes = changed(operation, stored.items.get(&key), change)?;
            if let Some(attributes) = &attributes {
                check_size(operation, &key, attributes)?;
            }
            after.push((key, attributes));
        }
        for (key, attributes) in after {
            stored.replace(key, attributes);
        }
        Ok(Outcome::Written)
    }

    async fn put_all(&self, operation: &'static str, items: Vec<Item>) -> Result<(), PortError> {
        for item in &items {
            check_size(operation, &item.key, &item.attributes)?;
        }
        let mut stored = self.lock();
        for item in items {
            stored.replace(item.key, Some(item.attributes));
        }
        Ok(())
    }
}
