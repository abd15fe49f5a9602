//! Arithmetic on rows of amounts, as [`nodeless_model::ResourceIndex`] makes them.

/// Quantities in thousandths, by the resources' places.
pub(crate) type Amounts = Box<[i64]>;

/// The number of times that `asked` fits into `available`, at most `limit`. Nothing fits into negative capacity.
pub(crate) fn times_fitting(asked: &[i64], available: &[i64], limit: u32) -> u32 {
    let mut times = i64::from(limit);
    for (asked, available) in asked.iter().zip(available) {
        if *available < 0 {
            return 0;
        }
        if *asked > 0 {
            times = times.min(available / asked);
        }
    }
    u32::try_from(times).unwrap_or(0)
}

/// Whether `asked` fits into `available`.
pub(crate) fn fits(asked: &[i64], available: &[i64]) -> bool {
    asked.iter().zip(available).all(|(asked, available)| *available >= 0 && asked <= available)
}

/// Subtracts `asked` from `available` a number of times.
pub(crate) fn take(available: &mut [i64], asked: &[i64], times: u32) {
    for (available, asked) in available.iter_mut().zip(asked) {
        *available = available.saturating_sub(asked.saturating_mul(i64::from(times)));
    }
}

/// Adds `more` to `sum` a number of times.
pub(crate) fn add(sum: &mut [i64], more: &[i64], times: u32) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more.saturating_mul(i64::from(times)));
    }
}

/// The maximum fraction of the capacity that the requests use, over all resources.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
pub(crate) fn dominant_share(requests: &[i64], capacity: &[i64]) -> f64 {
    requests
        .iter()
        .zip(capacity)
        .filter(|(asked, capacity)| **asked > 0 && **capacity > 0)
        .map(|(asked, capacity)| *asked as f64 / *capacity as f64)
        .fold(0.0, f64::max)
}
