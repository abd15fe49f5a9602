//! The claims table as a whole.

use crate::{Capacity, Claims, Decisions, Plans, Records, Shards, StoredCatalog};

/// Everything that one cluster's functions share: the claims table, which one adapter implements part by part.
pub trait State: Claims + Shards + Plans + Capacity + Records + StoredCatalog + Decisions {}

impl<T: Claims + Shards + Plans + Capacity + Records + StoredCatalog + Decisions> State for T {}
