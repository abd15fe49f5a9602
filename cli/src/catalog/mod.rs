//! Catalogs: loading them from files, printing them, and exporting them from an account.

pub(crate) mod export;
pub(crate) mod listing;
pub(crate) mod load;
pub(crate) mod text;
