//! Cron expressions of budgets, of the schedules of NodePools and of CronJobs: five fields or a macro, in UTC or in a time zone.
//!
//! The dialect is that of Karpenter's budgets (robfig/cron's standard parser): minute, hour, day of month, month, day of
//! week; lists, ranges and steps; names of months and days; `?` for `*`. Where both days are restricted, either suffices.
//! As in robfig/cron, `CRON_TZ=Europe/Berlin` or `TZ=Europe/Berlin` before the fields sets a time zone of the IANA database, which is
//! compiled in. Karpenter allows no time zone in budgets.
//!
//! A start that a change to daylight saving time skips is at the same distance after the change, so that no window is lost; one that
//! exists twice when the change ends is the first of the two.

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};
use std::str::FromStr;

/// A recurring start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days_of_month: u64,
    months: u64,
    days_of_week: u64,
    /// Whether the day of the month is unrestricted.
    any_day_of_month: bool,
    /// Whether the day of the week is unrestricted.
    any_day_of_week: bool,
    zone: TimeZone,
}

/// Why a text is not a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a schedule: {why}; write five fields such as \"0 9 * * mon-fri\", or @daily")]
pub struct CronError {
    text: String,
    why: String,
}

/// The name of a field and the values it may have.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
const DAY_OF_MONTH: Field = Field { name: "day of month", min: 1, max: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAY_OF_WEEK: Field =
    Field { name: "day of week", min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// The clocks of no time zone are changed by more than this for daylight saving time.
const MAX_CHANGE_HOURS: i8 = 2;

/// A leap day may be eight years away (1896 to 1904, 2096 to 2104); an expression without a match in that time has none.
const DAYS_SEARCHED: u32 = 8 * 366 + 1;

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |why: String| CronError { text: text.to_owned(), why };
        let (zone, rest) = zone(text.trim()).map_err(error)?;
        let expanded = match rest {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = expanded.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
            return Err(error(format!("it has {} fields, not five", fields.len())));
        };
        let parse = |text: &str, field: &Field| field.parse(text).map_err(error);
        let (minutes, _) = parse(minute, &MINUTE)?;
        let (hours, _) = parse(hour, &HOUR)?;
        let (days_of_month, any_day_of_month) = parse(day_of_month, &DAY_OF_MONTH)?;
        let (months, _) = parse(month, &MONTH)?;
        let (days_of_week, any_day_of_week) = parse(day_of_week, &DAY_OF_WEEK)?;
        Ok(Self { minutes, hours, days_of_month, months, days_of_week, any_day_of_month, any_day_of_week, zone })
    }
}

/// The time zone of an expression, and the expression without it.
fn zone(text: &str) -> Result<(TimeZone, &str), String> {
    let Some(after) = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) else {
        return Ok((TimeZone::UTC, text));
    };
    let (name, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    Ok((named_zone(name)?, rest.trim_start()))
}

fn named_zone(name: &str) -> Result<TimeZone, String> {
    let unknown = |_| format!("{name:?} is no time zone of the IANA database, such as Europe/Berlin");
    TimeZoneDatabase::bundled().get(name).map_err(unknown)
}

impl Field {
    /// The values as bits, and whether the field is unrestricted.
    fn parse(&self, text: &str) -> Result<(u64, bool), String> {
        let mut bits = 0;
        let mut free = false;
        for part in text.split(',') {
            let (values, any) = self.parse_part(part)?;
            bits |= values;
            free |= any;
        }
        Ok((bits, free))
    }

    /// Parses one part of a list: `*`, `5`, `1-5`, each optionally with `/step`.
    fn parse_part(&self, part: &str) -> Result<(u64, bool), String> {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => (range, Some(step)),
        };
        let step = match step {
            None => 1,
            Some(step) => step
                .parse::<u32>()
                .ok()
                .filter(|step| *step > 0)
                .ok_or_else(|| format!("the step {step:?} of the {} is no whole number above zero", self.name))?,
        };
        let any = matches!(range, "*" | "?");
        let (first, last) = if any {
            (self.min, self.max)
        } else if let Some((first, last)) = range.split_once('-') {
            (self.value(first)?, self.value(last)?)
        } else {
            let value = self.value(range)?;
            // `5/15` means starting at 5.
            (value, if part.contains('/') { self.max } else { value })
        };
        if first > last {
            return Err(format!("the range {range:?} of the {} runs backwards", self.name));
        }
        let mut bits = 0;
        let mut value = first;
        while value <= last {
            bits |= 1 << value;
            value = value.saturating_add(step);
        }
        Ok((bits, any && step == 1))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_ascii_lowercase();
        if let Some(place) = self.names.iter().position(|name| *name == lower) {
            return Ok(self.min + u32::try_from(place).unwrap_or(0));
        }
        text.parse()
            .ok()
            .filter(|value| (self.min..=self.max).contains(value))
            .ok_or_else(|| format!("the {} {text:?} is not between {} and {}", self.name, self.min, self.max))
    }
}

const fn has(bits: u64, value: i8) -> bool {
    value >= 0 && bits & (1 << value) != 0
}

impl Cron {
    /// This expression in a time zone, as a CronJob has it in a field of its own.
    ///
    /// # Errors
    /// When the time zone is unknown.
    pub fn in_zone(self, name: &str) -> Result<Self, CronError> {
        let zone = named_zone(name).map_err(|why| CronError { text: name.to_owned(), why })?;
        Ok(Self { zone, ..self })
    }

    /// The first start strictly after a time; `None` if there is none, as on 30 February.
    #[must_use]
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let now = time.to_zoned(self.zone.clone());
        // A start that a change of the clocks skipped is after the change, although the clock has passed it.
        let skipped = if self.zone == TimeZone::UTC { 0 } else { MAX_CHANGE_HOURS };
        let mut date = now.date();
        for day in 0..DAYS_SEARCHED {
            if self.starts_on(date) {
                let (hour, minute) = match (day, skipped) {
                    (0, 0) => (now.hour(), now.minute() + 1),
                    (0, _) => (now.hour().saturating_sub(skipped).max(0), 0),
                    _ => (0, 0),
                };
                let starts = self.starts_from(hour, minute).filter_map(|(hour, minute)| self.at(date, hour, minute));
                if let Some(first) = starts.into_iter().find(|start| *start > time) {
                    return Some(first);
                }
            }
            date = date.checked_add(1.day()).ok()?;
        }
        None
    }

    fn at(&self, date: Date, hour: i8, minute: i8) -> Option<Timestamp> {
        Some(date.at(hour, minute, 0, 0).to_zoned(self.zone.clone()).ok()?.timestamp())
    }

    fn starts_on(&self, date: Date) -> bool {
        let of_month = has(self.days_of_month, date.day());
        let of_week = has(self.days_of_week, date.weekday().to_sunday_zero_offset());
        let day = if self.any_day_of_month || self.any_day_of_week { of_month && of_week } else { of_month || of_week };
        has(self.months, date.month()) && day
    }

    /// The hours and minutes of the starts of a day that are not before the given ones.
    fn starts_from(&self, hour: i8, minute: i8) -> impl Iterator<Item = (i8, i8)> {
        (hour..24).filter(|candidate| has(self.hours, *candidate)).flat_map(move |candidate| {
            let min = if candidate == hour { minute } else { 0 };
            (min..60).filter(|minute| has(self.minutes, *minute)).map(move |minute| (candidate, minute))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_next_start() {
        for (cron, after, next) in [
            ("* * * * *", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"),
            ("* * * * *", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"),
            ("@hourly", "2026-01-01T23:00:00Z", "2026-01-02T00:00:00Z"),
            ("@daily", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@monthly", "2026-01-15T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("@yearly", "2026-01-15T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("0 9 * * mon-fri", "2026-01-02T09:00:00Z", "2026-01-05T09:00:00Z"),
            ("*/15 8-10 * * *", "2026-01-02T10:45:00Z", "2026-01-03T08:00:00Z"),
            ("5/20 * * * *", "2026-01-02T10:26:00Z", "2026-01-02T10:45:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * FRI", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 13 * ?", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
            ("0 0 */2 * mon", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"),
            ("0 12 1,15 jan,JUL *", "2026-01-15T12:00:00Z", "2026-07-01T12:00:00Z"),
        ] {
            let found = cron.parse::<Cron>().unwrap().next_after(after.parse().unwrap()).unwrap();
            assert_eq!(found, next.parse::<Timestamp>().unwrap(), "{cron} after {after}");
        }
        assert_eq!("0 0 30 2 *".parse::<Cron>().unwrap().next_after(Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn a_time_zone_follows_daylight_saving_time() {
        for (cron, after, next) in [
            ("CRON_TZ=Europe/Berlin 0 20 * * *", "2026-01-15T00:00:00Z", "2026-01-15T19:00:00Z"),
            ("CRON_TZ=Europe/Berlin 0 20 * * *", "2026-07-15T00:00:00Z", "2026-07-15T18:00:00Z"),
            ("TZ=Asia/Kolkata 0 9 * * mon", "2026-01-01T00:00:00Z", "2026-01-05T03:30:00Z"),
            ("CRON_TZ=America/New_York @daily", "2026-01-01T05:00:00Z", "2026-01-02T05:00:00Z"),
            // On 29 March the clocks go from 02:00 to 03:00: the start that they skip is at 03:30.
            ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
            ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29T01:10:00Z", "2026-03-29T01:30:00Z"),
            ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"),
            // On 25 October they go from 03:00 to 02:00: the first 02:30 is the start, and the second is none.
            ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
            ("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"),
        ] {
            let found = cron.parse::<Cron>().unwrap().next_after(after.parse().unwrap()).unwrap();
            assert_eq!(found, next.parse::<Timestamp>().unwrap(), "{cron} after {after}");
        }
        let moved = "0 20 * * *".parse::<Cron>().unwrap().in_zone("Europe/Berlin").unwrap();
        assert_eq!(moved, "CRON_TZ=Europe/Berlin 0 20 * * *".parse().unwrap());
        assert!(moved.in_zone("Europe/Nowhere").is_err());
    }

    #[test]
    fn refuses_what_is_no_schedule() {
        for (text, why) in [
            ("", "0 fields"),
            ("* * * *", "4 fields"),
            ("* * * * * *", "6 fields"),
            ("60 * * * *", "minute \"60\" is not between 0 and 59"),
            ("* 24 * * *", "hour"),
            ("* * 0 * *", "day of month"),
            ("* * * 13 *", "month"),
            ("* * * * 7", "day of week"),
            ("*/0 * * * *", "step"),
            ("5-1 * * * *", "backwards"),
            ("@every 1h", "2 fields"),
            ("x * * * *", "minute"),
            ("CRON_TZ=Europe/Nowhere 0 9 * * *", "\"Europe/Nowhere\" is no time zone"),
            ("CRON_TZ=Europe/Berlin", "0 fields"),
        ] {
            let error = text.parse::<Cron>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
