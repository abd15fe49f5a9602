//! How much of the limits of the cluster is used.

use crate::snapshot::Snapshot;
use nodeless_model::node_pool::PoolUsage;

/// How much of the limits of the cluster is used, in percent of the limit that is used most; `None` without limits. A limit of
/// zero is used up.
pub(crate) fn used_percent(snapshot: &Snapshot) -> Option<f64> {
    let limits = snapshot.cluster_limits();
    let used = PoolUsage::sum(snapshot.usage.values());
    let share = |used: f64, limit: f64| if limit > 0.0 { used / limit * 100.0 } else { 100.0 };
    let resources =
        limits.resources.iter().map(|(name, limit)| share(used.resources.get(name).as_f64(), limit.as_f64()));
    let dollars = limits.dollars_per_hour.map(|limit| share(used.dollars_per_hour, limit));
    resources.chain(dollars).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodeless_catalog::Catalog;
    use nodeless_model::cluster_limits::{MAX_CPU, MAX_DOLLARS_PER_HOUR, MAX_NODES};
    use nodeless_model::{Quantity, ResourceList};
    use std::sync::Arc;

    fn snapshot(annotations: &[(&str, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::bare(Timestamp::UNIX_EPOCH, Arc::new(Catalog::embedded().unwrap()));
        let of = |cpu: i64, dollars_per_hour: f64| PoolUsage {
            resources: ResourceList::from([("cpu", Quantity::from_units(cpu)), ("nodes", Quantity::from_units(1))]),
            dollars_per_hour,
            ..PoolUsage::default()
        };
        snapshot.usage.insert("a".to_owned(), of(2, 0.1));
        snapshot.usage.insert("b".to_owned(), of(4, 0.3));
        annotations.iter().for_each(|(key, value)| snapshot.view.options.set(key, Some(value)));
        snapshot
    }

    #[test]
    fn the_limit_that_is_used_most_counts() {
        assert_eq!(used_percent(&snapshot(&[])), None);
        assert_eq!(used_percent(&snapshot(&[(MAX_CPU, "8")])), Some(75.0));
        assert_eq!(
            used_percent(&snapshot(&[(MAX_CPU, "8"), (MAX_NODES, "4"), (MAX_DOLLARS_PER_HOUR, "0.5")])),
            Some(80.0)
        );
        assert_eq!(used_percent(&snapshot(&[(MAX_NODES, "0")])), Some(100.0));
    }

    #[test]
    fn a_limit_that_cannot_be_parsed_is_used_up() {
        assert_eq!(used_percent(&snapshot(&[(MAX_CPU, "8"), (MAX_NODES, "few")])), Some(100.0));
    }
}
