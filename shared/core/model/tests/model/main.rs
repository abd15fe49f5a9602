//! The parsers of the model.
#![allow(clippy::unwrap_used)]

mod parsers;
