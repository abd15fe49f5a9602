//! `nodeless catalog export`.

use crate::error::CliError;
use crate::output::{self, report};
use nodeless_catalog::file;
use nodeless_telemetry::{Context, Human, Level, SystemClock};
use std::path::Path;
use std::sync::Arc;

/// Reads the instance types and prices of the region that the AWS configuration of the environment names, and writes them as
/// a catalog file.
pub(crate) async fn export(path: &Path) -> Result<(), CliError> {
    let config = nodeless_aws::load_config().await;
    let context = Context {
        cluster_name: String::new(),
        clock: Arc::new(SystemClock),
        sink: Arc::new(Human { level: Level::Warn }),
    };
    let (facts, catalog) = nodeless_ec2::read_region(&config, context).await?;
    let text = file::write(&facts, &catalog).map_err(CliError::Json)?;
    if path == Path::new("-") {
        output::line(text)?;
    } else {
        std::fs::write(path, text + "\n").map_err(|source| CliError::Write { path: path.to_owned(), source })?;
    }
    let [on_demand, spot] = catalog.price_sources();
    report!("{} instance types of {}; {on_demand}; {spot}", catalog.types.len(), catalog.region);
    Ok(())
}
