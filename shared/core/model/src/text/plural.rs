//! Numbers of objects in texts.

use std::fmt::Display;

/// `1 node`, `2 nodes`.
#[must_use]
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
