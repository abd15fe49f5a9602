//! Reads the records from the claims table.

use super::decoded;
use super::times::Times;
use crate::decisions::stored::table_of;
use crate::error::CliError;
use nodeless_bill::report::Records;
use nodeless_bill::{HourRecord, Open};
use nodeless_ports::PortError;
use nodeless_state::State;
use nodeless_state::costs::{StoredCosts, StoredHour};
use nodeless_storage::DynamoTable;
use std::sync::Arc;

/// The records of a cluster, of the time of a report. Uses the AWS configuration of the environment.
pub(crate) async fn read(cluster: &str, table: Option<&str>, times: Times) -> Result<Records, CliError> {
    let table = table.map_or_else(|| table_of(cluster), str::to_owned);
    let config = nodeless_aws::load_config().await;
    let claims = State::new(Arc::new(DynamoTable::new(&config, &table, cluster)));
    let unreadable = |error: PortError| CliError::Table { table: table.clone(), error };
    let StoredCosts { version, encoded } = claims.open_costs().await.map_err(unreadable)?;
    if version == 0 {
        return Ok(Records::default());
    }
    let open: Open = decoded("cost#open", &encoded)?;
    let Some((from, to)) = times.resolve(open.through) else {
        return Ok(Records { hours: Vec::new(), open: Some(open) });
    };
    let hours = claims.hours(from, to).await.map_err(unreadable)?;
    let hour = |stored: &StoredHour| decoded::<HourRecord>(&format!("hour#{}", stored.key()), &stored.encoded);
    Ok(Records { hours: hours.iter().map(hour).collect::<Result<_, _>>()?, open: Some(open) })
}
