//! Records of single NodePools that their owner encodes, each written on the condition that nobody else wrote it: what voluntary
//! disruption did to them lately, and what came of their last launches.

use crate::items::{Item, read_number, read_text, text, ttl};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use jiff::Timestamp;
use nodeless_ports::PortError;
use nodeless_ports::claims::{StoredChurn, StoredRegistrations};

const CHURN: &str = "churn#";
const REGISTRATIONS: &str = "registrations#";

impl DynamoClaims {
    pub(crate) async fn read_churn(&self) -> Result<Vec<StoredChurn>, PortError> {
        self.items(CHURN, None).await?.iter().map(|item| Ok(PoolRecord::decode(item, CHURN)?.into())).collect()
    }

    pub(crate) async fn write_churn(&self, churn: &StoredChurn) -> Result<u64, PortError> {
        let StoredChurn { node_pool, version, encoded, expires } = churn.clone();
        self.put_pool_record(CHURN, PoolRecord { node_pool, version, encoded, expires }).await
    }

    pub(crate) async fn read_registrations(&self) -> Result<Vec<StoredRegistrations>, PortError> {
        let items = self.items(REGISTRATIONS, None).await?;
        items.iter().map(|item| Ok(PoolRecord::decode(item, REGISTRATIONS)?.into())).collect()
    }

    pub(crate) async fn read_registrations_of(&self, pool: &str) -> Result<Option<StoredRegistrations>, PortError> {
        let item = self.item(&format!("{REGISTRATIONS}{pool}")).await?;
        item.map(|item| Ok(PoolRecord::decode(&item, REGISTRATIONS)?.into())).transpose()
    }

    pub(crate) async fn write_registrations(&self, stored: &StoredRegistrations) -> Result<u64, PortError> {
        let StoredRegistrations { node_pool, version, encoded, expires } = stored.clone();
        self.put_pool_record(REGISTRATIONS, PoolRecord { node_pool, version, encoded, expires }).await
    }

    async fn put_pool_record(&self, prefix: &str, record: PoolRecord) -> Result<u64, PortError> {
        let mut item = self.key(&format!("{prefix}{}", record.node_pool));
        item.insert("record".to_owned(), text(record.encoded));
        item.insert("expires".to_owned(), ttl(record.expires));
        let operation = format!("DynamoDB PutItem ({})", prefix.trim_end_matches('#'));
        self.put_versioned(&operation, item, Stored::read_expiring(record.version)).await
    }
}

/// The parts of such an item.
struct PoolRecord {
    node_pool: String,
    version: u64,
    encoded: String,
    expires: Timestamp,
}

impl PoolRecord {
    fn decode(item: &Item, prefix: &str) -> Result<Self, PortError> {
        let seconds: i64 = read_number(item, "expires")?;
        Ok(Self {
            node_pool: read_text(item, "sk")?.trim_start_matches(prefix).to_owned(),
            version: read_number(item, "version")?,
            encoded: read_text(item, "record")?.to_owned(),
            expires: Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX),
        })
    }
}

impl From<PoolRecord> for StoredChurn {
    fn from(PoolRecord { node_pool, version, encoded, expires }: PoolRecord) -> Self {
        Self { node_pool, version, encoded, expires }
    }
}

impl From<PoolRecord> for StoredRegistrations {
    fn from(PoolRecord { node_pool, version, encoded, expires }: PoolRecord) -> Self {
        Self { node_pool, version, encoded, expires }
    }
}
