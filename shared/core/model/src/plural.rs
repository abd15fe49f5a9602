//! Numbers of objects in texts.

/// `1 node`, `2 nodes`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
