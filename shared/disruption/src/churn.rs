//! The churn breaker: voluntary disruption of a NodePool stops when it evicts many pods and lowers no price.

use nodeless_model::StringMap;

/// The annotation of a NodePool: how many pods voluntary disruption may evict within an hour before a falling price has to
/// justify it. [`MOST_EVICTIONS`] where it is not set; `0` switches the breaker off.
pub const EVICTIONS: &str = "nodeless.sh/churn-evictions-per-hour";

/// How many evictions per hour and node need no justification, where nothing else is said.
pub const MOST_EVICTIONS: u32 = 30;

/// What voluntary disruption did to a NodePool within the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastHour {
    /// How many pods it evicted.
    pub evictions: u32,
    /// How many nodes the NodePool has.
    pub nodes: u32,
    /// Dollars per hour that its nodes cost an hour ago, for each unit of what their pods ask for; so that a growing load
    /// does not look like churn. See [`price_per_load`].
    pub price_before: f64,
    /// The same now.
    pub price_now: f64,
}

/// By how much the price has to have fallen to justify many evictions: one per cent.
const LEAST_FALL: f64 = 0.01;

/// The most evictions per hour that a NodePool's annotation allows; `None` where the breaker is switched off.
///
/// # Errors
/// When the annotation is no whole number; the default holds then.
pub fn most_evictions(annotations: &StringMap) -> Result<Option<u32>, String> {
    let Some(text) = annotations.get(EVICTIONS) else { return Ok(None) };
    text.parse::<u32>().map(Some).map_err(|_| {
        format!(
            "annotation {EVICTIONS} is {text:?}, which is ignored: write a whole number of pods, or 0 for no breaker"
        )
    })
}

/// What nodes cost for each unit of load, in dollars per hour; zero without load. `load` may be in any unit that is the same
/// both times, such as the price of what the pods ask for.
#[must_use]
pub fn price_per_load(price: f64, load: f64) -> f64 {
    if load > 0.0 { price / load } else { 0.0 }
}

/// Why voluntary disruption of a NodePool stops, if it does; for [`crate::Cluster::stopped`]. It goes on when the last
/// hour no longer says so.
#[must_use]
pub fn stopped(node_pool: &str, annotations: &StringMap, hour: &LastHour) -> Option<String> {
    let most = match most_evictions(annotations) {
        Ok(Some(0)) => return None,
        Ok(Some(most)) => most,
        // At least as many as one node may hold, so that a small NodePool can be consolidated at all.
        Ok(None) | Err(_) => MOST_EVICTIONS.saturating_mul(hour.nodes.max(4)),
    };
    let fell = hour.price_before > 0.0 && hour.price_now <= hour.price_before * (1.0 - LEAST_FALL);
    (hour.evictions > most && !fell).then(|| {
        format!(
            "disruption of NodePool {node_pool} evicted {} pods within an hour, more than {most}, and its nodes cost no less for \
             it; it goes on when the hour is over, or set {EVICTIONS}",
            hour.evictions
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_what_evicts_and_saves_nothing() {
        let none = StringMap::new();
        let hour = LastHour { evictions: 121, nodes: 3, price_before: 1.0, price_now: 1.0 };
        assert!(stopped("default", &none, &hour).unwrap().contains("evicted 121 pods within an hour, more than 120"));
        assert_eq!(stopped("default", &none, &LastHour { evictions: 120, ..hour }), None);
        assert_eq!(stopped("default", &none, &LastHour { price_now: 0.98, ..hour }), None, "the price fell");
        assert!(stopped("default", &none, &LastHour { price_now: 0.995, ..hour }).is_some(), "hardly");
        assert_eq!(stopped("default", &none, &LastHour { nodes: 50, ..hour }), None);
        let said = |text: &str| StringMap::from([(EVICTIONS.to_owned(), text.to_owned())]);
        assert_eq!(stopped("default", &said("0"), &hour), None);
        assert_eq!(stopped("default", &said("200"), &hour), None);
        assert!(stopped("default", &said("100"), &hour).is_some());
        assert!(stopped("default", &said("few"), &hour).is_some(), "the default holds");
        assert!(most_evictions(&said("few")).unwrap_err().contains("\"few\""));
        assert!((price_per_load(2.0, 4.0) - 0.5).abs() < 1e-9 && price_per_load(2.0, 0.0) == 0.0);
    }
}
