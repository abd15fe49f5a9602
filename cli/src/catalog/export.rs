//! `nodeless catalog export`.

use crate::error::CliError;
use crate::local::running::Running;
use crate::output::{self, report};
use crate::output_file::OutputFile;
use nodeless_catalog::{Catalog, file};
use std::path::Path;

/// Writes the catalog of the simulated account of a local cluster as a catalog file.
pub(crate) fn of_local_cluster(cluster: &str, path: &Path) -> Result<(), CliError> {
    let target = Target::check(path)?;
    let local = Running::find(cluster).ok_or_else(|| CliError::NoLocalCluster {
        name: cluster.to_owned(),
        otherwise: "leave --cluster out for the account of the AWS configuration",
    })?;
    let text = local.catalog()?;
    let parsed = file::parse(text.as_bytes()).map_err(|error| local.unusable(&error.to_string()))?;
    target.write(&text)?;
    report!("{}, of local cluster {cluster}", types_of(&parsed.catalog));
    Ok(())
}

/// Reads the instance types and prices of the region that the AWS configuration of the environment names, and writes them as
/// a catalog file.
#[cfg(feature = "aws")]
pub(crate) async fn of_account(path: &Path) -> Result<(), CliError> {
    use nodeless_telemetry::{Context, Level, SystemClock};
    use std::sync::Arc;

    let target = Target::check(path)?;
    let config = nodeless_aws::load_config().await;
    let context = Context {
        cluster_name: String::new(),
        clock: Arc::new(SystemClock),
        sink: Arc::new(output::Plain { level: Level::Warn }),
    };
    let (facts, catalog) = nodeless_ec2::read_region(&config, context).await?;
    target.write(&file::write(&facts, &catalog).map_err(CliError::Json)?)?;
    let [on_demand, spot] = catalog.price_sources();
    report!("{}; {on_demand}; {spot}", types_of(&catalog));
    Ok(())
}

fn types_of(catalog: &Catalog) -> String {
    format!("{} instance types of {}", catalog.types.len(), catalog.region)
}

/// Where a catalog is written: standard output, or a file.
struct Target(Option<OutputFile>);

impl Target {
    fn check(path: &Path) -> Result<Self, CliError> {
        Ok(Self(if path == Path::new("-") { None } else { Some(OutputFile::check(path)?) }))
    }

    fn write(self, text: &str) -> Result<(), CliError> {
        match self.0 {
            Some(file) => file.write(&format!("{text}\n")),
            None => output::json_line(text).map(drop),
        }
    }
}
