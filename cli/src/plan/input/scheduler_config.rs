//! The settings of kube-scheduler that a plan depends on, in the format of Karpenter's `SCHEDULER_CONFIG`.

use crate::error::CliError;
use nodeless_api::default_spread::SchedulerConfig;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A larger file is not such a configuration.
const MAXIMUM_BYTES: u64 = 64 * 1024;

/// Reads the file, which contains YAML or JSON; without one, no settings.
pub(crate) fn read(path: Option<&Path>) -> Result<SchedulerConfig, CliError> {
    let Some(path) = path else { return Ok(SchedulerConfig::default()) };
    let failed = |source| CliError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAXIMUM_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    parse(&bytes).map_err(|why| CliError::SchedulerConfig { path: path.to_owned(), why })
}

fn parse(bytes: &[u8]) -> Result<SchedulerConfig, String> {
    if bytes.len() as u64 > MAXIMUM_BYTES {
        return Err(format!("it has more than {MAXIMUM_BYTES} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}
