//! Recurring times: one or more of `SCHEDULE for DURATION`, separated by semicolons.

use crate::amounts::cron::{Cron, CronError};
use crate::amounts::duration::parse_go_duration;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Recurring times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows(Vec<Window>);

/// A recurring time: when it begins, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    start: Cron,
    length: Duration,
}

impl Windows {
    /// Parses `SCHEDULE for DURATION`, several separated by semicolons.
    pub(super) fn parse(text: &str) -> Result<Self, Option<String>> {
        let windows: Vec<Window> = text.split(';').map(str::trim).map(Window::parse).collect::<Result<_, _>>()?;
        // Which times match does not depend on when they are searched.
        if windows.iter().all(|window| window.start.next_after(Timestamp::UNIX_EPOCH).is_none()) {
            return Err(Some("no time matches it".to_owned()));
        }
        Ok(Self(windows))
    }

    /// The end of the current windows, if there are any. One window may continue into the next.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        let latest = |at| self.0.iter().filter_map(|window| window.until(at)).max();
        let mut until = latest(now);
        for _ in 0..self.0.len() {
            until = until.map(|end| latest(end).map_or(end, |next| next.max(end)));
        }
        until
    }

    /// When the next window begins.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.0.iter().filter_map(|window| window.start.next_after(now)).min()
    }
}

impl Window {
    fn parse(part: &str) -> Result<Self, String> {
        let error = |why: String| format!("{part:?} is not a window: {why}");
        let (start, length) = part.rsplit_once(" for ").ok_or_else(|| error("the duration is missing".to_owned()))?;
        let start = start.trim().parse().map_err(|why: CronError| error(why.to_string()))?;
        let length = parse_go_duration(length.trim()).map_err(|why| error(why.to_string()))?;
        if length.is_zero() {
            return Err(error("the duration is zero".to_owned()));
        }
        Ok(Self { start, length })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn until(windows: &str, now: &str) -> Option<Timestamp> {
        Windows::parse(windows).unwrap().until(at(now))
    }

    #[test]
    fn sleeps_at_night_and_over_the_weekend() {
        let schedule = "0 20 * * mon-thu for 11h; 0 20 * * fri for 59h";
        for (now, expected) in [
            ("2026-01-05T19:59:59Z", None),
            ("2026-01-05T20:00:00Z", Some("2026-01-06T07:00:00Z")),
            ("2026-01-06T06:59:59Z", Some("2026-01-06T07:00:00Z")),
            ("2026-01-06T07:00:00Z", None),
            ("2026-01-10T12:00:00Z", Some("2026-01-12T07:00:00Z")),
        ] {
            assert_eq!(until(schedule, now), expected.map(at), "{now}");
        }
        // A window may be long, and start again before it ends.
        let always = until("* * * * * for 8760h", "2026-01-05T21:00:30Z");
        assert!(always > Some(at("2027-01-05T20:59:00Z")), "{always:?}");
        let newyear = until("0 0 1 1 * for 8760h", "2026-06-05T21:00:30Z");
        assert!(newyear >= Some(at("2027-01-01T00:00:00Z")), "{newyear:?}");
        // From one window into the next.
        let all = until("0 20 * * * for 2h; 0 22 * * * for 1h", "2026-01-05T21:00:00Z");
        assert_eq!(all, Some(at("2026-01-05T23:00:00Z")));
    }

    #[test]
    fn a_window_opens_and_closes() {
        let windows = Windows::parse("0 2 * * sat for 4h; 0 1 * * sun for 3h").unwrap();
        for (now, until, next) in [
            ("2026-01-09T23:59:59Z", None, "2026-01-10T02:00:00Z"),
            ("2026-01-10T02:00:00Z", Some("2026-01-10T06:00:00Z"), "2026-01-11T01:00:00Z"),
            ("2026-01-10T05:59:59Z", Some("2026-01-10T06:00:00Z"), "2026-01-11T01:00:00Z"),
            ("2026-01-10T06:00:00Z", None, "2026-01-11T01:00:00Z"),
            ("2026-01-11T03:30:00Z", Some("2026-01-11T04:00:00Z"), "2026-01-17T02:00:00Z"),
            ("2026-01-11T04:00:00Z", None, "2026-01-17T02:00:00Z"),
        ] {
            assert_eq!((windows.until(at(now)), windows.next(at(now))), (until.map(at), Some(at(next))), "{now}");
        }
    }

    #[test]
    fn a_window_in_a_time_zone_follows_daylight_saving_time() {
        // In Berlin the clocks go forward on 2026-03-29 at 02:00, and back on 2026-10-25 at 03:00.
        for (now, expected) in [
            ("2026-03-22T01:30:00Z", Some("2026-03-22T02:30:00Z")),
            // 02:30 is skipped, so the window begins at 03:30 in summer time.
            ("2026-03-29T01:29:59Z", None),
            ("2026-03-29T01:30:00Z", Some("2026-03-29T02:30:00Z")),
            ("2026-04-05T00:30:00Z", Some("2026-04-05T01:30:00Z")),
            // 02:30 exists twice, and the first of the two counts.
            ("2026-10-25T00:30:00Z", Some("2026-10-25T01:30:00Z")),
            ("2026-10-25T01:30:00Z", None),
        ] {
            assert_eq!(until("CRON_TZ=Europe/Berlin 30 2 * * sun for 1h", now), expected.map(at), "{now}");
        }
    }

    #[test]
    fn refuses_what_is_no_window_or_never_begins() {
        for (text, part) in [
            ("", "\"\" is not a window"),
            ("0 20 * * *", "the duration is missing"),
            ("0 25 * * * for 1h", "\"0 25 * * * for 1h\" is not a window"),
            ("0 20 * * * for a while", "\"a while\""),
            ("0 20 * * * for 0s", "the duration is zero"),
            ("@daily for 1h;", "\"\" is not a window"),
            ("CRON_TZ=Europe/Atlantis 0 2 * * sat for 4h", "Europe/Atlantis"),
            ("0 0 30 2 * for 1h", "no time matches it"),
        ] {
            let why = Windows::parse(text).unwrap_err().unwrap();
            assert!(why.contains(part), "{why}");
        }
        assert!(Windows::parse("0 0 30 2 * for 1h; 0 0 29 2 * for 1h").is_ok());
    }
}
