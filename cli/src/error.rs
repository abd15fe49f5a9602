//! What can go wrong with a command, told to a person.

use nodeless_kubernetes::install::InstallError;
use nodeless_ports::PortError;
use std::path::PathBuf;

/// Why a command could not do what was asked for. Each text says what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// A file could not be written.
    #[error("{path} cannot be written: {source}; choose another place or mend its permissions")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The definitions could not be made.
    #[error(transparent)]
    Crd(#[from] nodeless_api::crds::CrdError),
    /// The installation stopped.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The cluster did not answer as expected.
    #[error(transparent)]
    Port(#[from] PortError),
}
