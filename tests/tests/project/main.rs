//! Rules of the project: what crates link, cycles of modules, style, architecture, and tests that documents name.
#![allow(missing_docs, clippy::unwrap_used)]

mod architecture;
mod links;
mod modules;
mod scheduling_constraints;
mod style;
mod test_binaries;
