//! The values of annotations, and their parsers.

use crate::amounts::duration::parse_go_duration;
use crate::amounts::money::parse_dollars;
use crate::amounts::root_volume::RootVolumeError;
use crate::setting::Setting;
use crate::{DaemonSetName, Quantity, RootVolumeSize};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The maximum number of warm nodes of a NodePool.
const MAX_WARM: usize = 100;

/// A value, or what is wrong with it beyond not being a valid one.
type Parsed<T> = Result<T, Option<String>>;

/// Whether voluntary disruption is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It is not.
    No,
    /// Until the annotation is gone.
    Always,
    /// Until a time.
    Until(Timestamp),
}

impl Setting<Pause> {
    /// The pause at a time, if there is one. An invalid annotation pauses, because the user meant to prevent disruption.
    #[must_use]
    pub fn in_effect(&self, now: Timestamp) -> Option<Pause> {
        match self {
            Self::Unset | Self::Valid(Pause::No) => None,
            Self::Valid(Pause::Until(until)) if *until <= now => None,
            Self::Valid(pause) => Some(*pause),
            Self::Invalid(_) => Some(Pause::Always),
        }
    }
}

impl Pause {
    /// Until when it lasts; `None` means until the annotation is gone.
    #[must_use]
    pub const fn until(self) -> Option<Timestamp> {
        match self {
            Self::Until(until) => Some(until),
            Self::No | Self::Always => None,
        }
    }
}

/// The part of a NodePool's capacity that is at least on demand. Capacity reservations count as on-demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDemandMinimum {
    /// This number of nodes, or all nodes if there are fewer.
    Nodes(u32),
    /// This percentage of the CPUs of all nodes, from 1 to 100. It is compared exactly; as nodes are whole, the actual share may
    /// be larger.
    Percent(u32),
}

impl fmt::Display for OnDemandMinimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(1) => f.write_str("1 node"),
            Self::Nodes(nodes) => write!(f, "{nodes} nodes"),
            Self::Percent(percent) => write!(f, "{percent}% of the CPUs"),
        }
    }
}

pub(super) fn pause(text: &str) -> Parsed<Pause> {
    match text {
        "true" => Ok(Pause::Always),
        "false" => Ok(Pause::No),
        time => time.parse().map(Pause::Until).map_err(|_| None),
    }
}

pub(super) fn on_demand_minimum(text: &str) -> Parsed<OnDemandMinimum> {
    let number =
        |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit())).ok_or(None::<String>);
    match text.strip_suffix('%') {
        Some(percent) => match number(percent)? {
            percent if percent <= 100 => Ok(OnDemandMinimum::Percent(percent)),
            _ => Err(None),
        },
        None => number(text).map(OnDemandMinimum::Nodes),
    }
}

/// `ignore`, or a word that means yes.
fn choice(text: &str, yes: &str) -> Parsed<bool> {
    if text == yes || text == "ignore" { Ok(text == yes) } else { Err(None) }
}

pub(super) fn replace(text: &str) -> Parsed<bool> {
    choice(text, "replace")
}

pub(super) fn avoid(text: &str) -> Parsed<bool> {
    choice(text, "avoid")
}

/// Which nodes are terminated before their replacements are launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminateFirst {
    /// Drifted nodes.
    pub drift: bool,
    /// Unhealthy nodes.
    pub repair: bool,
}

pub(super) fn terminate_first(text: &str) -> Parsed<TerminateFirst> {
    let mut first = TerminateFirst::default();
    if text == "ignore" {
        return Ok(first);
    }
    for method in text.split(',').map(str::trim) {
        match method {
            "drift" => first.drift = true,
            "repair" => first.repair = true,
            _ => return Err(None),
        }
    }
    Ok(first)
}

pub(super) fn count(text: &str) -> Parsed<u32> {
    text.parse().map_err(|_| None)
}

pub(super) fn warm(text: &str) -> Parsed<usize> {
    text.parse().ok().filter(|count| *count <= MAX_WARM).ok_or(None)
}

pub(super) fn quantity(text: &str) -> Parsed<Quantity> {
    text.parse().ok().filter(|amount| *amount >= Quantity::ZERO).ok_or(None)
}

pub(super) fn dollars(text: &str) -> Parsed<f64> {
    parse_dollars(text).ok_or(None)
}

pub(super) fn positive_dollars(text: &str) -> Parsed<f64> {
    text.parse().ok().filter(|dollars: &f64| dollars.is_finite() && *dollars > 0.0).ok_or(None)
}

pub(super) fn duration(text: &str) -> Parsed<Duration> {
    parse_go_duration(text).map_err(|_| None)
}

pub(super) fn root_volume(text: &str) -> Parsed<RootVolumeSize> {
    text.parse().map_err(|error: RootVolumeError| Some(error.to_string()))
}

pub(super) fn daemon_sets(text: &str) -> Parsed<BTreeSet<DaemonSetName>> {
    DaemonSetName::listed(text).ok_or(None)
}

pub(super) fn text(text: &str) -> Parsed<String> {
    Ok(text.to_owned())
}
