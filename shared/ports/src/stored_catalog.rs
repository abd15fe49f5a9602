//! The stored catalog: the catalog function writes it, and all others read it.

use crate::PortError;
use async_trait::async_trait;
use jiff::Timestamp;

/// The stored catalog of one cluster.
#[async_trait]
pub trait StoredCatalog: Send + Sync {
    /// Stores the encoded catalog under its version, in chunks. Readers see the old or the new one, never a mixture: the old one is
    /// kept for an hour from `now` for those that have begun to read it.
    ///
    /// # Errors
    /// When the table cannot be written.
    async fn put_catalog(&self, version: &str, encoded: &[u8], now: Timestamp) -> Result<(), PortError>;

    /// The version of the catalog that is stored.
    ///
    /// # Errors
    /// When the table cannot be read.
    async fn catalog_version(&self) -> Result<Option<String>, PortError>;

    /// The stored catalog and its version.
    ///
    /// # Errors
    /// When the table cannot be read or a chunk is missing.
    async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError>;
}
