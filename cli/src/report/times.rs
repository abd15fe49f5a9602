//! The time that a report is about.

use crate::error::CliError;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use nodeless_bill::hour_of;
use nodeless_bill::report::last_hours;
use nodeless_state::costs::HOURS_KEPT;
use std::str::FromStr;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How long records are kept, in days: no longer time can be reported.
const DAYS_KEPT: u64 = HOURS_KEPT.as_secs() / (24 * 3600);

/// The time to report, as given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) from: Option<Timestamp>,
    pub(crate) to: Option<Timestamp>,
    /// A time relative to the end of the records, instead of `from` and `to`.
    pub(crate) window: Option<Window>,
}

/// A time relative to the end of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// This many full hours, the last of which ends with the records or less than an hour before.
    Hours(u32),
    /// The week or month in which the records end.
    Current(Period),
    /// The whole one before that.
    Last(Period),
}

/// A period of the calendar in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    /// From Monday, as in ISO 8601.
    Week,
    Month,
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hours = |number: &str, each: u32| {
            let number: u32 = number.parse().ok().filter(|number| *number > 0)?;
            number.checked_mul(each).filter(|hours| u64::from(*hours) <= DAYS_KEPT * 24)
        };
        let window = match text {
            "week" => return Ok(Self::Current(Period::Week)),
            "month" => return Ok(Self::Current(Period::Month)),
            "last-week" | "lastweek" => return Ok(Self::Last(Period::Week)),
            "last-month" | "lastmonth" => return Ok(Self::Last(Period::Month)),
            _ => match (text.strip_suffix('h'), text.strip_suffix('d')) {
                (Some(number), _) => hours(number, 1),
                (_, Some(number)) => hours(number, 24),
                _ => None,
            },
        };
        let wrong = || {
            format!(
                "write a number of days or hours such as 7d or 24h, at most {DAYS_KEPT} days, for which records are kept; or week, \
                 last-week, month, or last-month"
            )
        };
        window.map(Self::Hours).ok_or_else(wrong)
    }
}

impl Times {
    /// No time: of the records, only that of the current hour is read.
    pub(crate) const CURRENT_HOUR: Self = Self { from: Some(Timestamp::MAX), to: None, window: None };

    /// Refuses times that no report can have, before anything is read.
    ///
    /// # Errors
    /// If the end is not after the start.
    pub(crate) fn check(self) -> Result<(), CliError> {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from >= to => Err(CliError::ReportTimes { from, to }),
            _ => Ok(()),
        }
    }

    /// The start and the end, given the end of the records. Without them, from the start of the month to the end of the hour in which
    /// the records end. `None` if the start is after the records.
    pub(crate) fn resolve(self, through: Timestamp) -> Option<(Timestamp, Timestamp)> {
        let full = hour_of(through);
        let end = if full == through { full } else { later(full, HOUR) };
        // The period that ends at a time or contains the hour before it.
        let start = |period, end| start_of(period, earlier(end, HOUR));
        let (from, to) = match self.window {
            Some(Window::Hours(hours)) => last_hours(through, hours),
            Some(Window::Current(period)) => (start(period, end), end),
            Some(Window::Last(period)) => {
                let to = start(period, end);
                (start(period, to), to)
            }
            None => {
                let to = self.to.unwrap_or(end);
                (self.from.unwrap_or_else(|| start(Period::Month, to)), to)
            }
        };
        (from < to).then_some((from, to))
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(at)
}

fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(at)
}

/// The start of the week or month of a time in UTC.
fn start_of(period: Period, at: Timestamp) -> Timestamp {
    let date = at.to_zoned(TimeZone::UTC).date();
    let first = match period {
        Period::Week => date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).unwrap_or(date),
        Period::Month => date.first_of_month(),
    };
    first.to_zoned(TimeZone::UTC).map_or(at, |zoned| zoned.timestamp())
}

/// A time of the command line: a date, which begins at midnight in UTC, or a full hour.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let at = match text.parse::<Date>() {
        Ok(date) if !text.contains('T') => date.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).ok(),
        _ => text.parse::<Timestamp>().ok(),
    };
    let at = at.ok_or("write a date such as 2026-11-01, or a time such as 2026-11-01T13:00:00Z")?;
    if hour_of(at) == at { Ok(at) } else { Err("costs are recorded by the hour: write a full hour of UTC".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_dates_or_full_hours_and_default_to_the_month() {
        assert_eq!(time("2026-11-01"), Ok(at("2026-11-01T00:00:00Z")));
        assert_eq!(time("2026-11-01T13:00:00Z"), Ok(at("2026-11-01T13:00:00Z")));
        assert!(time("2026-11-01T13:30:00Z").unwrap_err().contains("full hour"));
        assert!(time("yesterday").unwrap_err().starts_with("write a date"));
        let of = |from, to| Times { from, to, window: None }.resolve(at("2026-11-23T13:20:00Z"));
        assert_eq!(of(None, None).unwrap(), (at("2026-11-01T00:00:00Z"), at("2026-11-23T14:00:00Z")));
        assert_eq!(of(None, Some(at("2026-11-01T00:00:00Z"))).unwrap().0, at("2026-10-01T00:00:00Z"));
        assert_eq!(of(Some(at("2026-11-23T14:00:00Z")), None), None, "after the last record");
        let of = |from, to| Times { from: Some(at(from)), to: Some(at(to)), window: None }.check();
        assert!(of("2026-11-01T00:00:00Z", "2026-11-01T01:00:00Z").is_ok());
        let error = of("2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z").unwrap_err().to_string();
        assert!(error.starts_with("--to 2026-12-01T00:00:00Z is not after --from 2026-12-01T00:00:00Z"), "{error}");
    }

    #[test]
    fn windows_are_full_hours_weeks_and_months_until_the_end_of_the_records() {
        let of = |window: &str, through: &str| {
            let window = Some(window.parse().unwrap());
            let (from, to) = Times { window, ..Times::default() }.resolve(at(through)).unwrap();
            format!("{from:.0} {to:.0}")
        };
        for (window, through, expected) in [
            ("24h", "2026-11-23T13:20:00Z", "2026-11-22T13:00:00Z 2026-11-23T13:00:00Z"),
            ("7d", "2026-11-23T13:20:00Z", "2026-11-16T13:00:00Z 2026-11-23T13:00:00Z"),
            ("1h", "2026-11-23T13:00:00Z", "2026-11-23T12:00:00Z 2026-11-23T13:00:00Z"),
            // November 23rd is a Monday.
            ("week", "2026-11-23T13:20:00Z", "2026-11-23T00:00:00Z 2026-11-23T14:00:00Z"),
            ("week", "2026-11-23T00:00:00Z", "2026-11-16T00:00:00Z 2026-11-23T00:00:00Z"),
            ("last-week", "2026-11-23T13:20:00Z", "2026-11-16T00:00:00Z 2026-11-23T00:00:00Z"),
            ("lastweek", "2026-01-04T13:20:00Z", "2025-12-22T00:00:00Z 2025-12-29T00:00:00Z"),
            ("month", "2026-11-23T13:20:00Z", "2026-11-01T00:00:00Z 2026-11-23T14:00:00Z"),
            // The records of November are complete, and there is none of December.
            ("month", "2026-12-01T00:00:00Z", "2026-11-01T00:00:00Z 2026-12-01T00:00:00Z"),
            ("last-month", "2026-03-31T13:20:00Z", "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z"),
            ("lastmonth", "2026-01-05T00:00:00Z", "2025-12-01T00:00:00Z 2026-01-01T00:00:00Z"),
        ] {
            assert_eq!(of(window, through), expected, "{window} {through}");
        }
        for wrong in [
            "",
            "7",
            "d",
            "0d",
            "-1d",
            "+d",
            "1.5d",
            "7D",
            "weeks",
            "397d",
            "99999999999999999999h",
            "9223372036854775807d",
        ] {
            let error = wrong.parse::<Window>().unwrap_err();
            assert!(error.starts_with("write a number of days or hours such as 7d"), "{wrong}: {error}");
        }
        assert_eq!("396d".parse(), Ok(Window::Hours(396 * 24)));
    }
}
