//! The state of a cluster in memory, which the simulator and its invariants also read without calls to the port.

use super::{Backup, MemoryTable};
use nodeless_model::NodeClaim;
use nodeless_ports::table::{Item, Partition, Query, Range, Value};
use nodeless_state::claims::{PARTITIONS, decode_claim};
use nodeless_state::plans::StoredCommand;
use nodeless_state::{State, decode_command};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// The stored state of one cluster, in a table in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryState {
    table: MemoryTable,
    state: State,
    /// The claims as they were decoded last.
    decoded: Arc<Mutex<BTreeMap<String, NodeClaim>>>,
}

impl Default for MemoryState {
    fn default() -> Self {
        Self::new(MemoryTable::default())
    }
}

impl MemoryState {
    /// The state in this table.
    #[must_use]
    pub fn new(table: MemoryTable) -> Self {
        Self { state: State::new(Arc::new(table.clone())), table, decoded: Arc::default() }
    }
}

/// The state without faults and without the limits of DynamoDB's partitions.
impl Deref for MemoryState {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl MemoryState {
    /// The table.
    #[must_use]
    pub fn table(&self) -> &MemoryTable {
        &self.table
    }

    /// Replaces all items by those of a backup, as [`MemoryTable::restore`] does.
    pub fn restore(&self, backup: Option<&Backup>) {
        self.table.restore(backup);
        // A claim that is written next has another content than the one that was read with the same version.
        self.decoded.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn items(&self, partition: Partition, prefix: &str) -> Vec<Item> {
        self.table.items(&Query { partition, keys: Range::Prefix(prefix.to_owned()), last: None, consistent: true })
    }

    /// Increases with each write of a claim or a command.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.table.writes("nodeclaim") + self.table.writes("command")
    }

    /// All current claims, in the order of their names, without a call to the port. One that cannot be decoded is left out: the
    /// functions fail to read it.
    #[must_use]
    pub fn snapshot(&self) -> Vec<NodeClaim> {
        let all = (0..PARTITIONS).flat_map(|number| self.items(Partition::Claims(number), "nodeclaim#"));
        let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        let claim = |item: &Item| {
            let known = decoded.get(item.key.sort.trim_start_matches("nodeclaim#"));
            let current = known.filter(|claim| is_current(claim, item));
            current.cloned().or_else(|| decode_claim(item).ok())
        };
        let claims = all.filter_map(|item| claim(&item)).map(|claim| (claim.name.clone(), claim)).collect();
        *decoded = claims;
        decoded.values().cloned().collect()
    }

    /// The current commands, without a call to the port, as [`snapshot`](Self::snapshot) gives the claims.
    #[must_use]
    pub fn commands_now(&self) -> Vec<StoredCommand> {
        let items = self.items(Partition::Cluster, "command#");
        items.iter().filter_map(|item| decode_command(item).ok()).collect()
    }

    /// The snapshots of plans that were kept, by id.
    #[must_use]
    pub fn snapshots(&self) -> BTreeMap<String, Vec<u8>> {
        let mut snapshots = BTreeMap::<String, Vec<u8>>::new();
        for item in self.items(Partition::Cluster, "snapshot#") {
            let id = item.key.sort.trim_start_matches("snapshot#").rsplit_once('#').map_or("", |(id, _)| id);
            if let Some(Value::Bytes(chunk)) = item.attributes.get("chunk") {
                snapshots.entry(id.to_owned()).or_default().extend(chunk);
            }
        }
        snapshots
    }

    /// The claim of an instance, without a call to the port.
    #[must_use]
    pub fn of_instance(&self, id: &str) -> Option<NodeClaim> {
        let has = |claim: &NodeClaim| claim.status.instance.as_ref().is_some_and(|instance| instance.id == id);
        self.snapshot().into_iter().find(has)
    }
}

/// Whether a claim is the one in an item.
fn is_current(claim: &NodeClaim, item: &Item) -> bool {
    item.attributes.get("version") == Some(&Value::Number(claim.version.cast_signed()))
        && item.attributes.get("uid") == Some(&Value::Text(claim.uid.clone()))
}
