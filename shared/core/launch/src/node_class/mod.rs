//! Resolving, validating and checking EC2NodeClasses.

pub mod amis;
pub mod check;
pub mod conditions;
pub mod exported_reservations;
pub mod query;
pub mod reservations;
pub mod validation;

pub use conditions::{Problem, Section, conditions, or_previous};
