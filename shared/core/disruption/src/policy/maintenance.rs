//! Maintenance windows of the cluster: voluntary disruption only at certain times.

use crate::cluster::Cluster;
use crate::policy::windows;
use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_model::StringMap;

/// The annotation of the Namespace `kube-system`: when nodes may be disrupted voluntarily. One or more of
/// `SCHEDULE for DURATION`, separated by semicolons, like `CRON_TZ=Europe/Berlin 0 2 * * sat for 4h; 0 1 * * sun for 3h`. Without
/// it, at any time.
pub const MAINTENANCE_WINDOWS: &str = "nodeless.sh/maintenance-windows";

/// The state of the maintenance windows at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// No windows are configured, so voluntary disruption is allowed at any time.
    Unrestricted,
    /// A window is open.
    Open {
        /// The end of the window.
        until: Timestamp,
    },
    /// No window is open.
    Closed {
        /// When the next one begins; `None` if none ever does.
        next: Option<Timestamp>,
    },
    /// The annotation is invalid. The user meant to prevent disruption at some time, so none is allowed.
    Invalid(String),
}

/// The state of the maintenance windows by the annotations of the Namespace `kube-system`.
#[must_use]
pub fn maintenance(annotations: &StringMap, now: Timestamp) -> Maintenance {
    let Some(text) = annotations.get(MAINTENANCE_WINDOWS) else { return Maintenance::Unrestricted };
    let windows = match windows::parse(text) {
        Ok(windows) => windows,
        Err(windows::Invalid { part, why }) => {
            return Maintenance::Invalid(format!(
                "annotation {MAINTENANCE_WINDOWS}: {part:?} is not a window, so no node is disrupted voluntarily until it is \
                 corrected: {why}; write it like CRON_TZ=Europe/Berlin 0 2 * * sat for 4h"
            ));
        }
    };
    match windows::until(&windows, now) {
        Some(until) => Maintenance::Open { until },
        None => Maintenance::Closed { next: windows::next(&windows, now) },
    }
}

/// Why voluntary disruption waits, if it does.
#[must_use]
pub fn waits(annotations: &StringMap, now: Timestamp) -> Option<String> {
    match maintenance(annotations, now) {
        Maintenance::Unrestricted | Maintenance::Open { .. } => None,
        Maintenance::Closed { next: Some(next) } => {
            Some(format!("no maintenance window is open, and the next one begins at {next:.0}"))
        }
        Maintenance::Closed { next: None } => {
            Some(format!("no maintenance window is open, and none of {MAINTENANCE_WINDOWS} ever begins"))
        }
        Maintenance::Invalid(_) => Some(format!("the annotation {MAINTENANCE_WINDOWS} is invalid")),
    }
}

/// Why nodes of the cluster are not disrupted voluntarily now, if they are not.
pub(crate) fn holding(cluster: &Cluster<'_>, now: Timestamp) -> Option<KeptReason> {
    waits(&cluster.annotations, now).map(KeptReason::MaintenanceWindow)
}

/// The problem of the annotation, if it is invalid or no window ever begins.
pub(crate) fn fault(annotations: &StringMap, now: Timestamp) -> Option<String> {
    match maintenance(annotations, now) {
        Maintenance::Invalid(why) => Some(why),
        Maintenance::Closed { next: None } => Some(format!(
            "annotation {MAINTENANCE_WINDOWS}: no time matches its schedules, so no node is ever disrupted voluntarily; correct or \
             remove it"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn of(windows: &str, now: &str) -> Maintenance {
        maintenance(&StringMap::from([(MAINTENANCE_WINDOWS.to_owned(), windows.to_owned())]), at(now))
    }

    #[test]
    fn without_the_annotation_it_is_always_allowed() {
        let none = StringMap::new();
        assert_eq!(maintenance(&none, at("2026-01-05T12:00:00Z")), Maintenance::Unrestricted);
        assert_eq!(waits(&none, at("2026-01-05T12:00:00Z")), None);
    }

    #[test]
    fn a_window_opens_and_closes() {
        let windows = "0 2 * * sat for 4h; 0 1 * * sun for 3h";
        for (now, expected) in [
            ("2026-01-09T23:59:59Z", Maintenance::Closed { next: Some(at("2026-01-10T02:00:00Z")) }),
            ("2026-01-10T02:00:00Z", Maintenance::Open { until: at("2026-01-10T06:00:00Z") }),
            ("2026-01-10T05:59:59Z", Maintenance::Open { until: at("2026-01-10T06:00:00Z") }),
            ("2026-01-10T06:00:00Z", Maintenance::Closed { next: Some(at("2026-01-11T01:00:00Z")) }),
            ("2026-01-11T03:30:00Z", Maintenance::Open { until: at("2026-01-11T04:00:00Z") }),
            ("2026-01-11T04:00:00Z", Maintenance::Closed { next: Some(at("2026-01-17T02:00:00Z")) }),
        ] {
            assert_eq!(of(windows, now), expected, "{now}");
        }
    }

    #[test]
    fn a_window_in_a_time_zone_follows_daylight_saving_time() {
        // In Berlin the clocks go forward on 2026-03-29 at 02:00, and back on 2026-10-25 at 03:00.
        let windows = "CRON_TZ=Europe/Berlin 30 2 * * sun for 1h";
        for (now, expected) in [
            ("2026-03-22T01:30:00Z", Maintenance::Open { until: at("2026-03-22T02:30:00Z") }),
            // 02:30 is skipped, so the window begins at 03:30 in summer time.
            ("2026-03-29T01:29:59Z", Maintenance::Closed { next: Some(at("2026-03-29T01:30:00Z")) }),
            ("2026-03-29T01:30:00Z", Maintenance::Open { until: at("2026-03-29T02:30:00Z") }),
            ("2026-04-05T00:30:00Z", Maintenance::Open { until: at("2026-04-05T01:30:00Z") }),
            // 02:30 exists twice, and the first of the two counts.
            ("2026-10-25T00:30:00Z", Maintenance::Open { until: at("2026-10-25T01:30:00Z") }),
            ("2026-10-25T01:30:00Z", Maintenance::Closed { next: Some(at("2026-11-01T01:30:00Z")) }),
        ] {
            assert_eq!(of(windows, now), expected, "{now}");
        }
    }

    #[test]
    fn an_invalid_window_allows_nothing_and_is_reported() {
        for text in ["", "weekends", "0 2 * * sat", "0 2 * * sat for 0s", "CRON_TZ=Europe/Atlantis 0 2 * * sat for 4h"]
        {
            let Maintenance::Invalid(why) = of(text, "2026-01-10T03:00:00Z") else { panic!("{text}") };
            assert!(why.contains(MAINTENANCE_WINDOWS) && why.contains("corrected"), "{why}");
            let annotations = StringMap::from([(MAINTENANCE_WINDOWS.to_owned(), text.to_owned())]);
            assert!(waits(&annotations, at("2026-01-10T03:00:00Z")).is_some());
            assert_eq!(fault(&annotations, at("2026-01-10T03:00:00Z")), Some(why));
        }
    }

    #[test]
    fn windows_that_never_begin_are_reported() {
        let text = "0 2 30 2 * for 4h";
        assert_eq!(of(text, "2026-01-10T03:00:00Z"), Maintenance::Closed { next: None });
        let annotations = StringMap::from([(MAINTENANCE_WINDOWS.to_owned(), text.to_owned())]);
        assert!(fault(&annotations, at("2026-01-10T03:00:00Z")).is_some_and(|why| why.contains("no time matches")));
    }
}
