//! Recurring times: one or more of `SCHEDULE for DURATION`, separated by semicolons.

use jiff::{SignedDuration, Timestamp};
use nodeless_model::cron::{Cron, CronError};
use nodeless_model::duration::parse_go_duration;
use std::time::Duration;

/// A recurring time: when it begins, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    start: Cron,
    length: Duration,
}

/// The part of a text that is not a recurring time, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) part: String,
    pub(crate) why: String,
}

/// Parses `SCHEDULE for DURATION`, several separated by semicolons.
pub(crate) fn parse(text: &str) -> Result<Vec<Window>, Invalid> {
    text.split(';').map(str::trim).map(parse_one).collect()
}

/// The end of the current windows, if there are any. One window may continue into the next.
pub(crate) fn until(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    let mut until = windows.iter().filter_map(|window| window.until(now)).max();
    for _ in 0..windows.len() {
        until = until
            .map(|end| windows.iter().filter_map(|window| window.until(end)).max().map_or(end, |next| next.max(end)));
    }
    until
}

/// When the next window begins; `None` if none ever does.
pub(crate) fn next(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    windows.iter().filter_map(|window| window.start.next_after(now)).min()
}

fn parse_one(part: &str) -> Result<Window, Invalid> {
    let error = |why: String| Invalid { part: part.to_owned(), why };
    let (start, length) = part.rsplit_once(" for ").ok_or_else(|| error("the duration is missing".to_owned()))?;
    let start: Cron = start.trim().parse().map_err(|why: CronError| error(why.to_string()))?;
    let length = parse_go_duration(length.trim()).map_err(|why| error(why.to_string()))?;
    if length.is_zero() {
        return Err(error("the duration is zero".to_owned()));
    }
    Ok(Window { start, length })
}

impl Window {
    /// The end of the current window, if there is one.
    fn until(&self, now: Timestamp) -> Option<Timestamp> {
        let length = SignedDuration::try_from(self.length).ok()?;
        // The latest started window counts, because windows may overlap. The search goes back in increasing steps.
        let mut back = SignedDuration::from_mins(1);
        loop {
            back = back.min(length);
            let begun = |after| self.start.next_after(after).filter(|start| *start <= now);
            if let Some(first) = begun(now.checked_sub(back).unwrap_or(Timestamp::MIN)) {
                return std::iter::successors(Some(first), |start| begun(*start)).last()?.checked_add(length).ok();
            }
            if back == length {
                return None;
            }
            back = back.saturating_mul(2);
        }
    }
}
