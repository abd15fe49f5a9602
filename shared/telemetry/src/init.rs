//! Logs of the libraries that we use, which write through `tracing`.

use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The filter in the environment is wrong.
    #[error("NODELESS_LOG is no log filter: {0}; write it like warn or info,hyper=warn")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Somebody was first.
    #[error("logging is set up already: {0}")]
    Again(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up the logs of libraries for people, on standard error: standard output is the command's own. Filtered as by [`init`].
///
/// # Errors
/// When `NODELESS_LOG` is no filter, or when this was called before.
pub fn init_for_people() -> Result<(), InitError> {
    use tracing_subscriber::util::SubscriberInitExt as _;
    let filter = filter()?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).finish().try_init()?;
    Ok(())
}

fn filter() -> Result<EnvFilter, InitError> {
    let text = std::env::var("NODELESS_LOG").unwrap_or_else(|_| "warn".to_owned());
    Ok(EnvFilter::try_new(text)?)
}

/// Sets up the logs of libraries: for people on standard error when that is a terminal, else as JSON on standard output.
/// The environment variable `NODELESS_LOG` filters them; without it warnings are shown.
///
/// # Errors
/// When `NODELESS_LOG` is no filter, or when this was called before.
pub fn init() -> Result<(), InitError> {
    use tracing_subscriber::util::SubscriberInitExt as _;
    let filter = filter()?;
    if std::io::stderr().is_terminal() {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).finish().try_init()?;
    } else {
        tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).finish().try_init()?;
    }
    Ok(())
}
