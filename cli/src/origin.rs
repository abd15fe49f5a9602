//! Where the items of the claims table were read.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;

/// Where an item was read.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// In the output of `aws dynamodb query`.
    File(PathBuf),
    /// In a table.
    #[cfg(feature = "aws")]
    Table(String),
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            #[cfg(feature = "aws")]
            Self::Table(name) => write!(f, "table {name}"),
        }
    }
}
