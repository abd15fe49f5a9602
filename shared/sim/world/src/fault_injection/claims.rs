//! The claims table, the source of the catalog and ARC, with faults.

use super::FaultInjection;
use async_trait::async_trait;
use nodeless_api::{EC2NodeClass, EC2NodeClassStatus};
use nodeless_catalog::Catalog;
use nodeless_ports::table::{Item, Key, Outcome, Query, Table, Write};
use nodeless_ports::{CatalogSource, ErrorKind, PortError, ZonalShift, ZonalShifts};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The claims table with faults injected. The subject of a write is the name of its item, or the names of its items of the kind that
/// it writes first.
#[derive(Clone)]
pub struct FaultyTable {
    /// The table itself.
    pub inner: Arc<dyn Table>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

#[async_trait]
impl Table for FaultyTable {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn get(&self, operation: &'static str, key: &Key) -> Result<Option<Item>, PortError> {
        self.fault_injection.read(operation, self.inner.get(operation, key)).await
    }

    async fn get_all(&self, operation: &'static str, keys: &BTreeSet<Key>) -> Result<Vec<Item>, PortError> {
        self.fault_injection.read(operation, self.inner.get_all(operation, keys)).await
    }

    async fn query(&self, operation: &'static str, queries: &[Query]) -> Result<Vec<Item>, PortError> {
        self.fault_injection.read(operation, self.inner.query(operation, queries)).await
    }

    async fn find_by_instance(&self, operation: &'static str, instance_id: &str) -> Result<Vec<Key>, PortError> {
        self.fault_injection.read(operation, self.inner.find_by_instance(operation, instance_id)).await
    }

    async fn write(&self, operation: &'static str, writes: Vec<Write>) -> Result<Outcome, PortError> {
        let subject = subject(writes.iter().map(|write| &write.key));
        let accepted = |outcome: &Outcome| *outcome == Outcome::Written;
        let call = async {
            let conditional = writes.iter().any(|write| !write.condition.is_none());
            if conditional && self.fault_injection.refuses() {
                return Err(other_transaction(operation, writes.len()));
            }
            self.inner.write(operation, writes).await
        };
        self.fault_injection.write(operation, subject, accepted, call).await
    }

    async fn put_all(&self, operation: &'static str, items: Vec<Item>) -> Result<(), PortError> {
        let subject = subject(items.iter().map(|item| &item.key));
        let call = self.inner.put_all(operation, items);
        self.fault_injection.write(operation, subject, |()| true, call).await
    }
}

/// The error when another transaction writes the same item: of a single write, and of a transaction after its attempts.
fn other_transaction(operation: &str, writes: usize) -> PortError {
    let (kind, code) = match writes {
        1 => (ErrorKind::Conflict, "TransactionConflictException"),
        _ => (ErrorKind::Throttled, "TransactionConflict"),
    };
    PortError::new(kind, operation, "another transaction was first").with_code(code)
}

/// The names of the items of the first kind: `a b` for `nodeclaim#a`, `nodeclaim#b` and `nodepool#default`.
fn subject<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
    let mut parts = keys.map(|key| key.sort.split_once('#').unwrap_or(("", &key.sort))).peekable();
    let Some(kind) = parts.peek().map(|(kind, _)| *kind) else { return String::new() };
    let names: Vec<&str> = parts.filter(|(of, _)| *of == kind).map(|(_, name)| name).collect();
    names.join(" ")
}

/// The CatalogSource port with faults injected.
#[derive(Clone)]
pub struct FaultyCatalogSource {
    /// The port itself.
    pub inner: Arc<dyn CatalogSource>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

#[async_trait]
impl CatalogSource for FaultyCatalogSource {
    async fn catalog(&self, previous: Option<&Catalog>) -> Result<Catalog, PortError> {
        self.fault_injection.read("source catalog", self.inner.catalog(previous)).await
    }

    async fn resolve(&self, node_class: &EC2NodeClass) -> Result<EC2NodeClassStatus, PortError> {
        self.fault_injection.read("source resolve", self.inner.resolve(node_class)).await
    }

    async fn release(&self, node_class: &EC2NodeClass) -> Result<(), PortError> {
        let subject = node_class.metadata.name.clone().unwrap_or_default();
        self.fault_injection.write("source release", subject, |()| true, self.inner.release(node_class)).await
    }

    async fn certificate_authority(&self) -> Option<String> {
        self.inner.certificate_authority().await
    }
}

/// The ZonalShifts port with faults injected.
#[derive(Clone)]
pub struct FaultyZonalShifts {
    /// The port itself.
    pub inner: Arc<dyn ZonalShifts>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

#[async_trait]
impl ZonalShifts for FaultyZonalShifts {
    async fn applied(&self) -> Result<Vec<ZonalShift>, PortError> {
        self.fault_injection.read("arc zonal shifts", self.inner.applied()).await
    }
}
