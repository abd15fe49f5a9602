//! The arithmetic of rolling updates.

use serde_json::Value;

/// A number, or a percentage of `of` rounded up or down.
pub(in crate::controllers) fn scaled(value: Option<&Value>, of: i64, round_up: bool, default: &str) -> i64 {
    let percent = |text: &str| text.strip_suffix('%').and_then(|text| text.parse::<i64>().ok());
    let share = |percent: i64| if round_up { (percent * of + 99) / 100 } else { percent * of / 100 };
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or_default(),
        Some(Value::String(text)) => percent(text).map_or(0, share),
        _ => percent(default).map_or_else(|| default.parse().unwrap_or(0), share),
    }
}

/// The maximum surge and the maximum number of unavailable pods of a rolling update. If both are zero, one pod may be unavailable, so that
/// the update makes progress.
pub(in crate::controllers) fn surge_and_unavailable(strategy: &Value, replicas: i64) -> (i64, i64) {
    let surge = scaled(strategy.get("maxSurge"), replicas, true, "25%");
    let unavailable = scaled(strategy.get("maxUnavailable"), replicas, false, "25%");
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}
