//! What came of a simulated run, for people.

pub(crate) mod html;
pub(crate) mod text;
