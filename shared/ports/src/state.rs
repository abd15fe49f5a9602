//! The claims table as a whole.

use crate::{Capacity, Claims, Costs, Decisions, Plans, Records, Shards, StoredCatalog};

/// The shared state of one cluster's functions: the claims table, which one adapter implements.
pub trait State: Claims + Shards + Plans + Capacity + Records + StoredCatalog + Decisions + Costs {}

impl<T: Claims + Shards + Plans + Capacity + Records + StoredCatalog + Decisions + Costs> State for T {}
