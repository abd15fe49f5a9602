//! Catalogs on the command line: read from files, printed, exported from an account.

#[cfg(feature = "aws")]
pub(crate) mod export;
pub(crate) mod listing;
pub(crate) mod load;
pub(crate) mod text;
