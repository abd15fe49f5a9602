//! The report of a simulation, as text and HTML.

pub(crate) mod html;
pub(crate) mod text;
