//! What is known of zonal shifts, written on the condition that nobody else wrote it.

use crate::items::{number, read_json, read_number, write_json};
use crate::table::DynamoClaims;
use nodeless_aws::port_error;
use nodeless_ports::{PortError, StoredZonalShifts};

const KEY: &str = "zonalshifts";

impl DynamoClaims {
    pub(crate) async fn read_zonal_shifts(&self) -> Result<StoredZonalShifts, PortError> {
        let Some(item) = self.item(KEY).await? else { return Ok(StoredZonalShifts::default()) };
        let stored: StoredZonalShifts = read_json(&item, "record")?;
        Ok(StoredZonalShifts { version: read_number(&item, "version")?, ..stored })
    }

    pub(crate) async fn write_zonal_shifts(&self, shifts: &StoredZonalShifts) -> Result<u64, PortError> {
        let version = shifts.version + 1;
        let mut item = self.key(KEY);
        item.insert("version".to_owned(), number(version));
        item.insert("record".to_owned(), write_json(shifts, "zonal shifts")?);
        let put = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let put = if shifts.version == 0 {
            put.condition_expression("attribute_not_exists(sk)")
        } else {
            put.condition_expression("version = :read").expression_attribute_values(":read", number(shifts.version))
        };
        put.send().await.map_err(|error| port_error("DynamoDB PutItem (zonal shifts)", &error))?;
        Ok(version)
    }
}
