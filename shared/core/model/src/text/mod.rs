//! Names and texts in messages and files.

pub mod plural;
pub mod printable;
pub mod quotes;
pub mod shell;
pub mod spelling;
pub mod templating;
