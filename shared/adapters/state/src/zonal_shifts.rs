//! What is known of zonal shifts, written on the condition that nobody else wrote it.

use crate::items::{read_json, read_number, write_json};
use crate::table::DynamoClaims;
use crate::versioned::Stored;
use nodeless_ports::{PortError, StoredZonalShifts};

const KEY: &str = "zonalshifts";

impl DynamoClaims {
    pub(crate) async fn read_zonal_shifts(&self) -> Result<StoredZonalShifts, PortError> {
        let Some(item) = self.item(KEY).await? else { return Ok(StoredZonalShifts::default()) };
        let stored: StoredZonalShifts = read_json(&item, "record")?;
        Ok(StoredZonalShifts { version: read_number(&item, "version")?, ..stored })
    }

    pub(crate) async fn write_zonal_shifts(&self, shifts: &StoredZonalShifts) -> Result<u64, PortError> {
        let mut item = self.key(KEY);
        item.insert("record".to_owned(), write_json(shifts, "zonal shifts")?);
        self.put_versioned("DynamoDB PutItem (zonal shifts)", item, Stored::read(shifts.version)).await
    }
}
