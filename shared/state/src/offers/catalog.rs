//! The stored catalog: chunks under their own version, and one pointer that is written after all of them. The catalog function writes
//! it, and all others read it.

use crate::State;
use crate::items::{attributes, number, read_bytes, read_number, read_text, text, ttl};
use jiff::{SignedDuration, Timestamp};
use nodeless_ports::table::{Change, EXPIRES, Item, Key, Value, Write};
use nodeless_ports::{ErrorKind, PortError};

/// DynamoDB limits an item to 400 kB.
const CHUNK_BYTES: usize = 350_000;
/// How long a superseded catalog is kept for readers that have read its pointer.
const SUPERSEDED_FOR: SignedDuration = SignedDuration::from_hours(1);
const POINTER: &str = "catalog#current";
const REFRESHED: &str = "catalog#refreshed";

/// The pointer to the current catalog.
struct Pointer {
    version: String,
    chunks: u32,
}

impl State {
    /// Stores the encoded catalog under its version, in chunks. Readers see the old or the new one, never a mixture: the old one is
    /// kept for an hour from `now` for those that have begun to read it.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn put_catalog(&self, version: &str, encoded: &[u8], now: Timestamp) -> Result<(), PortError> {
        const OPERATION: &str = "claims put catalog";
        let superseded = self.catalog_pointer(OPERATION).await?;
        let chunk = |(index, chunk): (u32, &[u8])| Item {
            key: chunk_key(version, index),
            attributes: attributes([("chunk", Value::Bytes(chunk.to_vec()))]),
        };
        let chunks: Vec<Item> = (0..).zip(encoded.chunks(CHUNK_BYTES)).map(chunk).collect();
        let pointer = attributes([("catalogVersion", text(version)), ("chunks", number(chunks.len()))]);
        self.table.put_all(OPERATION, chunks).await?;
        self.put(OPERATION, POINTER, pointer).await?;
        match superseded {
            Some(old) if old.version != version => {
                self.expire_chunks(OPERATION, &old, now.saturating_add(SUPERSEDED_FOR).unwrap_or(Timestamp::MAX)).await
            }
            _ => Ok(()),
        }
    }

    /// The version of the catalog that is stored.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn catalog_version(&self) -> Result<Option<String>, PortError> {
        Ok(self.catalog_pointer("claims catalog version").await?.map(|pointer| pointer.version))
    }

    /// Stores the time of a refresh that read the catalog and all EC2NodeClasses.
    ///
    /// # Errors
    /// When the table cannot be written.
    pub async fn put_catalog_refreshed(&self, at: Timestamp) -> Result<(), PortError> {
        let item = attributes([("refreshed", number(at.as_second()))]);
        self.put("claims put catalog refreshed", REFRESHED, item).await
    }

    /// The time of the last refresh that read the catalog and all EC2NodeClasses.
    ///
    /// # Errors
    /// When the table cannot be read.
    pub async fn catalog_refreshed(&self) -> Result<Option<Timestamp>, PortError> {
        let Some(item) = self.item("claims catalog refreshed", REFRESHED).await? else { return Ok(None) };
        Ok(Timestamp::from_second(read_number(&item, "refreshed")?).ok())
    }

    /// The stored catalog and its version.
    ///
    /// # Errors
    /// When the table cannot be read or a chunk is missing.
    pub async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError> {
        const OPERATION: &str = "claims catalog";
        let Some(pointer) = self.catalog_pointer(OPERATION).await? else { return Ok(None) };
        let mut encoded = Vec::new();
        for index in 0..pointer.chunks {
            let Some(item) = self.table.get(OPERATION, &chunk_key(&pointer.version, index)).await? else {
                let message = format!(
                    "chunk {index} of catalog {} is missing; the catalog function writes a whole one within five minutes",
                    pointer.version
                );
                return Err(PortError::new(ErrorKind::Unavailable, OPERATION, message));
            };
            encoded.extend_from_slice(read_bytes(&item, "chunk")?);
        }
        Ok(Some((pointer.version, encoded)))
    }

    async fn catalog_pointer(&self, operation: &'static str) -> Result<Option<Pointer>, PortError> {
        let Some(item) = self.item(operation, POINTER).await? else { return Ok(None) };
        let version = read_text(&item, "catalogVersion")?.to_owned();
        Ok(Some(Pointer { version, chunks: read_number(&item, "chunks")? }))
    }

    async fn expire_chunks(&self, operation: &'static str, old: &Pointer, at: Timestamp) -> Result<(), PortError> {
        for index in 0..old.chunks {
            let expire = Change::Set(attributes([(EXPIRES, ttl(at))]));
            self.write_one(operation, Write::new(chunk_key(&old.version, index), expire)).await?;
        }
        Ok(())
    }
}

fn chunk_key(version: &str, index: u32) -> Key {
    Key::of_cluster(format!("catalog#{version}#{index:03}"))
}
