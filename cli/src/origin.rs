//! Where the items of the claims table were read.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;

/// Where an item was read.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// In the output of `aws dynamodb query`.
    File(PathBuf),
    /// In the table of the local cluster with this name.
    Local(String),
    /// In a table.
    #[cfg(feature = "aws")]
    Table(String),
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Local(name) => write!(f, "local cluster {name}"),
            #[cfg(feature = "aws")]
            Self::Table(name) => write!(f, "table {name}"),
        }
    }
}
