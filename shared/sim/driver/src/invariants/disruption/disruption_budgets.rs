//! The allowed disruptions, computed from the JSON of a NodePool, and the maintenance windows of the cluster.

use crate::scenarios::durations;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, civil::DateTime};
use serde_json::Value;

/// The allowed disruptions of this number of nodes for a reason: the minimum of the applicable budgets, with percentages rounded up. A
/// budget with a schedule counts if it is active at all of these times.
pub(in crate::invariants) fn allowed(pool: &Value, reason: &str, nodes: usize, times: &[Timestamp]) -> usize {
    let budgets = pool.pointer("/spec/disruption/budgets").and_then(Value::as_array).cloned();
    let budgets = budgets.unwrap_or_else(|| vec![serde_json::json!({ "nodes": "10%" })]);
    let about = |budget: &&Value| {
        let reasons = budget.get("reasons").and_then(Value::as_array);
        let named = reasons.is_none_or(|reasons| reasons.is_empty() || reasons.iter().any(|it| it == reason));
        named && times.iter().all(|at| is_in_force(budget, *at))
    };
    let count = |budget: &Value| {
        let text = match &budget["nodes"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match text.strip_suffix('%').map(str::parse::<usize>) {
            Some(percent) => (percent.unwrap_or(0) * nodes).div_ceil(100),
            None => text.parse().unwrap_or(0),
        }
    };
    budgets.iter().filter(about).map(count).min().unwrap_or(usize::MAX)
}

/// Whether a budget is active at a time: always without a schedule, otherwise for its duration after each time of its schedule. A
/// budget with an unsupported schedule counts as inactive, so that no violation is reported in error.
fn is_in_force(budget: &Value, at: Timestamp) -> bool {
    let Some(schedule) = budget.get("schedule").and_then(Value::as_str) else { return true };
    let duration = budget.get("duration").and_then(Value::as_str).map(durations::parse);
    let (Some(Ok(duration)), Some(schedule)) = (duration, Schedule::parse(schedule)) else { return false };
    schedule.is_in_force(duration, at)
}

/// Whether a maintenance window is open at a time. Windows with an unsupported schedule count as open, so that no violation is
/// reported in error.
pub(in crate::invariants) fn is_open(windows: &str, at: Timestamp) -> bool {
    windows.split(';').any(|window| {
        let Some((schedule, duration)) = window.rsplit_once(" for ") else { return true };
        let (Some(schedule), Ok(duration)) = (Schedule::parse(schedule.trim()), durations::parse(duration.trim()))
        else {
            return true;
        };
        schedule.is_in_force(duration, at)
    })
}

/// A cron schedule: the matching minutes, hours, days, months and weekdays, in a time zone.
struct Schedule([Vec<i8>; 5], TimeZone);

/// Larger than any change of the clocks in any time zone.
const CHANGE: SignedDuration = SignedDuration::from_hours(3);

impl Schedule {
    fn parse(text: &str) -> Option<Self> {
        let (zone, text) = match text.strip_prefix("CRON_TZ=") {
            None => (TimeZone::UTC, text),
            Some(zoned) => {
                let (name, text) = zoned.split_once(' ')?;
                (TimeZoneDatabase::bundled().get(name).ok()?, text)
            }
        };
        let text = match text {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
        // With both a day and a weekday cron matches either, which no scenario needs.
        if fields.len() != 5 || (fields[2] != "*" && fields[4] != "*") {
            return None;
        }
        let mut matching = Vec::new();
        for (field, (first, last)) in fields.iter().zip(ranges) {
            matching.push(parse_field(field, first, last)?);
        }
        Some(Self(matching.try_into().ok()?, zone))
    }

    /// Whether the schedule started less than this duration before a time. Tries each earlier minute of local time: one that the clocks
    /// skip is shifted forward by the gap, and one that exists twice is the first.
    fn is_in_force(&self, duration: SignedDuration, at: Timestamp) -> bool {
        let local = self.1.to_datetime(at.saturating_add(CHANGE).unwrap_or(at)).with().second(0).subsec_nanosecond(0);
        let Ok(local) = local.build() else { return false };
        let minutes = (duration + CHANGE + CHANGE).as_mins();
        let starts = (0..=minutes).filter_map(|back| local.checked_sub(SignedDuration::from_mins(back)).ok());
        let starts = starts.filter(|start| self.matches(*start));
        let mut starts = starts.filter_map(|start| self.1.to_ambiguous_timestamp(start).compatible().ok());
        starts.any(|start| start <= at && at.duration_since(start) < duration)
    }

    fn matches(&self, at: DateTime) -> bool {
        let parts = [at.minute(), at.hour(), at.day(), at.month(), at.weekday().to_sunday_zero_offset()];
        self.0.iter().zip(parts).all(|(matching, part)| matching.contains(&part))
    }
}

fn parse_field(field: &str, first: i8, last: i8) -> Option<Vec<i8>> {
    const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let number = |text: &str| {
        let day = DAYS.iter().position(|day| *day == text.to_lowercase()).and_then(|day| i8::try_from(day).ok());
        day.or_else(|| text.parse().ok()).filter(|number| (first..=last).contains(number))
    };
    let mut all = Vec::new();
    for part in field.split(',') {
        let (range, step) = part.split_once('/').map_or((part, Some(1)), |(range, step)| (range, step.parse().ok()));
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (first, last),
            Some((from, to)) => (number(from)?, number(to)?),
            None => (number(range)?, if part.contains('/') { last } else { number(range)? }),
        };
        all.extend((from..=to).step_by(step.filter(|step| *step > 0)?));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pool(budgets: &Value) -> Value {
        json!({ "spec": { "disruption": { "budgets": budgets } } })
    }

    #[test]
    fn budgets_count_by_reason_and_round_up() {
        assert_eq!(allowed(&json!({ "spec": {} }), "Empty", 11, &[]), 2);
        let some = pool(&json!([{ "nodes": "50%" }, { "nodes": "1", "reasons": ["Drifted"] }]));
        assert_eq!((allowed(&some, "Empty", 5, &[]), allowed(&some, "Drifted", 5, &[])), (3, 1));
    }

    #[test]
    fn maintenance_windows_follow_daylight_saving_time() {
        // In Berlin the clocks go forward on 2026-03-29 at 02:00, and back on 2026-10-25 at 03:00.
        let open = |windows: &str, at: &str| is_open(windows, at.parse().unwrap());
        let night = "CRON_TZ=Europe/Berlin 10 2 * * sun for 15m";
        for (at, expected) in [
            ("2026-03-22T01:10:00Z", true),
            ("2026-03-29T01:09:59Z", false),
            ("2026-03-29T01:10:00Z", true),
            ("2026-03-29T01:24:59Z", true),
            ("2026-03-29T01:25:00Z", false),
            ("2026-10-25T00:10:00Z", true),
            ("2026-10-25T01:10:00Z", false),
        ] {
            assert_eq!(open(night, at), expected, "{at}");
        }
        assert!(open(&format!("0 0 1 1 * for 1m; {night}"), "2026-03-29T01:10:00Z"));
        assert!(!open("0 0 * * * for 1m; 5 0 * * * for 1m", "2026-03-29T01:10:00Z"));
    }

    #[test]
    fn budgets_with_a_schedule_hold_within_their_windows() {
        // 2026-03-02 is a Monday.
        let at = |text: &str| [text.parse::<Timestamp>().unwrap()];
        let none = pool(&json!([{ "nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h" }]));
        for (time, held) in [
            ("2026-03-02T08:59:00Z", false),
            ("2026-03-02T09:00:30Z", true),
            ("2026-03-02T16:59:00Z", true),
            ("2026-03-02T17:00:00Z", false),
            ("2026-03-01T12:00:00Z", false),
        ] {
            assert_eq!(allowed(&none, "Empty", 5, &at(time)) == 0, held, "{time}");
        }
        let both = ["2026-03-02T08:59:00Z", "2026-03-02T09:10:00Z"].map(|text| text.parse().unwrap());
        assert_eq!(allowed(&none, "Empty", 5, &both), usize::MAX, "decided before the window");
        let often = pool(&json!([{ "nodes": "0", "schedule": "*/20 1,3 * * *", "duration": "5m" }]));
        assert_eq!(allowed(&often, "Empty", 5, &at("2026-03-02T03:44:00Z")), 0);
        assert_eq!(allowed(&often, "Empty", 5, &at("2026-03-02T03:45:00Z")), usize::MAX);
        let odd = pool(&json!([{ "nodes": "0", "schedule": "0 0 1 * mon", "duration": "5m" }]));
        assert_eq!(allowed(&odd, "Empty", 5, &at("2026-06-01T00:01:00Z")), usize::MAX);
    }
}
