//! The stored catalog: chunks under their own version, and one pointer that is written after all of them.

use crate::items::{number, read_number, read_text, text, ttl};
use crate::table::DynamoClaims;
use async_trait::async_trait;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use jiff::{SignedDuration, Timestamp};
use nodeless_aws::port_error;
use nodeless_ports::{ErrorKind, PortError, StoredCatalog};

/// DynamoDB limits an item to 400 kB.
const CHUNK_BYTES: usize = 350_000;
/// How long a superseded catalog is kept for readers that have read its pointer.
const SUPERSEDED_FOR: SignedDuration = SignedDuration::from_hours(1);
const POINTER: &str = "catalog#current";

/// The pointer to the current catalog.
struct Pointer {
    version: String,
    chunks: u32,
}

impl DynamoClaims {
    async fn catalog_pointer(&self) -> Result<Option<Pointer>, PortError> {
        let Some(item) = self.item(POINTER).await? else { return Ok(None) };
        let version = read_text(&item, "catalogVersion")?.to_owned();
        Ok(Some(Pointer { version, chunks: read_number(&item, "chunks")? }))
    }

    async fn expire_chunks(&self, old: &Pointer, at: Timestamp) -> Result<(), PortError> {
        for index in 0..old.chunks {
            self.client
                .update_item()
                .table_name(&self.table)
                .set_key(Some(self.key(&chunk_key(&old.version, index))))
                .update_expression("SET expires = :at")
                .expression_attribute_values(":at", ttl(at))
                .send()
                .await
                .map_err(|error| port_error("DynamoDB UpdateItem (expire catalog)", &error))?;
        }
        Ok(())
    }
}

#[async_trait]
impl StoredCatalog for DynamoClaims {
    async fn put_catalog(&self, version: &str, encoded: &[u8], now: Timestamp) -> Result<(), PortError> {
        let superseded = self.catalog_pointer().await?;
        let mut chunks: u32 = 0;
        for chunk in encoded.chunks(CHUNK_BYTES) {
            let bytes = AttributeValue::B(Blob::new(chunk));
            self.put(&chunk_key(version, chunks), vec![("chunk", bytes)]).await?;
            chunks += 1;
        }
        self.put(POINTER, vec![("catalogVersion", text(version)), ("chunks", number(chunks))]).await?;
        match superseded {
            Some(old) if old.version != version => {
                self.expire_chunks(&old, now.saturating_add(SUPERSEDED_FOR).unwrap_or(Timestamp::MAX)).await
            }
            _ => Ok(()),
        }
    }

    async fn catalog_version(&self) -> Result<Option<String>, PortError> {
        Ok(self.catalog_pointer().await?.map(|pointer| pointer.version))
    }

    async fn catalog(&self) -> Result<Option<(String, Vec<u8>)>, PortError> {
        let Some(pointer) = self.catalog_pointer().await? else { return Ok(None) };
        let mut encoded = Vec::new();
        for index in 0..pointer.chunks {
            let item = self.item(&chunk_key(&pointer.version, index)).await?;
            let Some(AttributeValue::B(chunk)) = item.as_ref().and_then(|item| item.get("chunk")) else {
                let message = format!(
                    "chunk {index} of catalog {} is missing; the catalog function writes a whole one within five minutes",
                    pointer.version
                );
                return Err(PortError::new(ErrorKind::Unavailable, "DynamoDB read catalog", message));
            };
            encoded.extend_from_slice(chunk.as_ref());
        }
        Ok(Some((pointer.version, encoded)))
    }
}

fn chunk_key(version: &str, index: u32) -> String {
    format!("catalog#{version}#{index:03}")
}
