//! Pausing all voluntary disruption, for a NodePool or the whole cluster.

use crate::cluster::Cluster;
use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_model::{NodePool, Pause, Setting};

/// Why voluntary disruption of a NodePool's nodes is paused, if it is.
pub(crate) fn holding(cluster: &Cluster<'_>, pool: &NodePool, now: Timestamp) -> Option<KeptReason> {
    let one = |pause: &Setting<Pause>, scope: &dyn Fn() -> String| {
        pause.in_effect(now).map(|pause| KeptReason::Paused { scope: scope(), until: pause.until() })
    };
    one(&cluster.options.pause, &|| "the cluster".to_owned())
        .or_else(|| one(&pool.options.pause, &|| format!("NodePool {}", pool.name)))
}
