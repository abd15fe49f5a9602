//! The time line: what nodeless did and what happened to nodes, a line for each, made of Events and of the objects that exist. Everybody
//! who may create Events can claim to be nodeless: entries have no text of an Event.
//!
//! The API server deletes Events after an hour. Launches are also found by their NodeClaims, for as long as these exist. Transitions of
//! conditions, why nodes are not consolidated, and nominations are no entries: they are in the list of Events.

mod commands;
mod facts;
mod interruptions;
mod launches;
pub(crate) mod reasons;
mod warnings;

use crate::line::Target;
use crate::objects::cluster::Cluster;
use facts::TimelineFacts;
pub(crate) use facts::TimelineRows;
use jiff::Timestamp;
use serde::Serialize;
pub(crate) use warnings::FailedLaunches;

/// The number of entries that are shown.
const ENTRIES: usize = 200;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum EntryKind {
    /// Nodes were launched for pods.
    Launch,
    /// Nodes were disrupted by a command.
    Disruption,
    /// AWS interrupts instances.
    Interruption,
    /// A limit prevented a launch.
    Limit,
    /// A NodeClaim failed.
    Failure,
    /// Another warning of nodeless.
    Warning,
}

/// A line of the time line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// When it began.
    pub time: Timestamp,
    /// What it is about.
    pub kind: EntryKind,
    /// What happened, to which object, and why.
    pub text: String,
    /// What followed; `null` if nothing is known.
    pub followed: Option<String>,
    /// The object to open.
    pub object: Option<Target>,
}

impl EntryKind {
    /// The name in text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Disruption => "disruption",
            Self::Interruption => "interruption",
            Self::Limit => "limit",
            Self::Failure => "failure",
            Self::Warning => "warning",
        }
    }

    /// Whether something did not go as desired.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        !matches!(self, Self::Launch | Self::Disruption)
    }
}

impl TimelineEntry {
    /// The text, and what followed.
    #[must_use]
    pub fn sentence(&self) -> String {
        let followed = self.followed.as_ref().map(|what| format!("; {what}")).unwrap_or_default();
        format!("{}{followed}", self.text)
    }
}

/// The entries of a cluster, the newest first, and why the launches for pods fail.
pub(crate) fn timeline(cluster: &Cluster, rows: TimelineRows<'_>) -> (Vec<TimelineEntry>, FailedLaunches) {
    let facts = TimelineFacts::new(cluster, rows);
    let mut all = launches::launches(&facts);
    all.extend(commands::commands(&facts));
    all.extend(interruptions::interruptions(&facts));
    all.extend(warnings::limits(&facts));
    all.extend(warnings::failures(&facts));
    all.extend(warnings::others(&facts));
    all.sort_by(|a, b| (b.time, a.kind, &a.text).cmp(&(a.time, b.kind, &b.text)));
    all.truncate(ENTRIES);
    (all, warnings::failed_launches(&facts))
}

/// `a`, `a and b`, or `a, b and 3 others`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, other] => format!("{one} and {other}"),
        [one, other, rest @ ..] => {
            format!("{one}, {other} and {} other{}", rest.len(), if rest.len() == 1 { "" } else { "s" })
        }
    }
}

#[cfg(test)]
mod tests;
