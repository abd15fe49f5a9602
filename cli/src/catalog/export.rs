//! `nodeless catalog export`.

use crate::error::CliError;
use crate::output::{self, Plain, report};
use crate::output_file::OutputFile;
use nodeless_catalog::file;
use nodeless_telemetry::{Context, Level, SystemClock};
use std::path::Path;
use std::sync::Arc;

/// Reads the instance types and prices of the region that the AWS configuration of the environment names, and writes them as
/// a catalog file.
pub(crate) async fn export(path: &Path) -> Result<(), CliError> {
    let target = if path == Path::new("-") { None } else { Some(OutputFile::check(path)?) };
    let config = nodeless_aws::load_config().await;
    let context = Context {
        cluster_name: String::new(),
        clock: Arc::new(SystemClock),
        sink: Arc::new(Plain { level: Level::Warn }),
    };
    let (facts, catalog) = nodeless_ec2::read_region(&config, context).await?;
    let text = file::write(&facts, &catalog).map_err(CliError::Json)?;
    match target {
        Some(target) => target.write(&(text + "\n"))?,
        None => drop(output::json_line(&text)?),
    }
    let [on_demand, spot] = catalog.price_sources();
    report!("{} instance types of {}; {on_demand}; {spot}", catalog.types.len(), catalog.region);
    Ok(())
}
