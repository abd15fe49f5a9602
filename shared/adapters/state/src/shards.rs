//! Shards: which claims are reconciled together, and when.

use crate::items::{Item, read_deflated, read_number, write_deflated};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use async_trait::async_trait;
use nodeless_ports::{PortError, Shards, StoredShard};

const PREFIX: &str = "shard#";

#[async_trait]
impl Shards for DynamoClaims {
    async fn shards(&self) -> Result<Vec<StoredShard>, PortError> {
        let items = self.items(PREFIX, None).await?;
        let mut shards: Vec<StoredShard> = items.iter().map(decode).collect::<Result<_, _>>()?;
        shards.sort_by_key(|shard| shard.shard);
        Ok(shards)
    }

    async fn shard(&self, shard: u32) -> Result<Option<StoredShard>, PortError> {
        self.item(&key(shard)).await?.as_ref().map(decode).transpose()
    }

    async fn put_shard(&self, shard: &StoredShard) -> Result<u64, PortError> {
        let mut item = self.key(&key(shard.shard));
        item.insert("record".to_owned(), write_deflated(shard, &key(shard.shard))?);
        self.put_versioned("DynamoDB PutItem (shard)", item, Stored::read(shard.version)).await
    }
}

fn key(shard: u32) -> String {
    format!("{PREFIX}{shard}")
}

fn decode(item: &Item) -> Result<StoredShard, PortError> {
    Ok(StoredShard { version: read_number(item, "version")?, ..read_deflated(item, "record")? })
}
