//! Maintenance windows of the cluster: voluntary disruption only at certain times.

use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_model::labels::MAINTENANCE_WINDOWS;
use nodeless_model::{ClusterOptions, Setting};

/// Why voluntary disruption waits, if it does. With an invalid annotation it always does, because the user meant to prevent disruption at
/// some time.
#[must_use]
pub fn waits(options: &ClusterOptions, now: Timestamp) -> Option<String> {
    match &options.maintenance_windows {
        Setting::Unset => None,
        Setting::Invalid(_) => Some(format!("the annotation {MAINTENANCE_WINDOWS} is invalid")),
        Setting::Valid(windows) if windows.until(now).is_some() => None,
        Setting::Valid(windows) => {
            let next = windows.next(now).map(|next| format!(", and the next one begins at {next:.0}"));
            Some(format!("no maintenance window is open{}", next.unwrap_or_default()))
        }
    }
}

/// Why nodes of the cluster are not disrupted voluntarily now, if they are not.
pub(crate) fn holding(options: &ClusterOptions, now: Timestamp) -> Option<KeptReason> {
    waits(options, now).map(KeptReason::MaintenanceWindow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disruption_waits_for_a_window() {
        let waits = |text: &str, now: &str| {
            let options = ClusterOptions::new(&[(MAINTENANCE_WINDOWS.into(), text.into())].into());
            waits(&options, now.parse().unwrap())
        };
        let saturdays = "0 2 * * sat for 4h";
        assert_eq!(super::waits(&ClusterOptions::default(), Timestamp::UNIX_EPOCH), None);
        assert_eq!(waits(saturdays, "2026-01-10T02:00:00Z"), None);
        let why = waits(saturdays, "2026-01-10T06:00:00Z").unwrap();
        assert_eq!(why, "no maintenance window is open, and the next one begins at 2026-01-17T02:00:00Z");
        for invalid in ["", "weekends", "0 2 30 2 * for 4h"] {
            assert!(waits(invalid, "2026-01-10T03:00:00Z").unwrap().ends_with("is invalid"), "{invalid}");
        }
    }
}
