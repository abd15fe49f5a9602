//! Pausing all voluntary disruption, for a NodePool or the whole cluster.

use crate::cluster::Cluster;
use crate::reasons::KeptReason;
use jiff::Timestamp;
use nodeless_model::{NodePool, StringMap};

/// The annotation, on a NodePool or on the Namespace `kube-system` for the whole cluster. `true` pauses until it is
/// removed; a time in RFC 3339 pauses until then; `false` does not.
pub const PAUSE: &str = "nodeless.sh/pause-disruption";

/// The state of the annotation at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing, or no longer.
    None,
    /// Voluntary disruption is paused.
    Paused {
        /// Until when; `None` means until the annotation is gone.
        until: Option<Timestamp>,
    },
    /// The annotation is invalid. The user meant to prevent disruption, so it is paused.
    Invalid(String),
}

/// The state of the pause by the annotations of a NodePool or of the Namespace `kube-system`.
#[must_use]
pub fn pause(annotations: &StringMap, now: Timestamp) -> Pause {
    let Some(value) = annotations.get(PAUSE) else { return Pause::None };
    match value.as_str() {
        "true" => Pause::Paused { until: None },
        "false" => Pause::None,
        other => match other.parse::<Timestamp>() {
            Ok(until) if until > now => Pause::Paused { until: Some(until) },
            Ok(_) => Pause::None,
            Err(_) => Pause::Invalid(format!(
                "annotation {PAUSE} is {other:?}, which pauses disruption until it is corrected: write true, false or a time \
                 such as 2026-01-31T18:00:00Z"
            )),
        },
    }
}

/// Why voluntary disruption of a NodePool's nodes is paused, if it is.
pub(crate) fn holding(cluster: &Cluster<'_>, pool: &NodePool, now: Timestamp) -> Option<KeptReason> {
    let one = |annotations, scope: String| match pause(annotations, now) {
        Pause::None => None,
        Pause::Paused { until } => Some(KeptReason::Paused { scope, until }),
        Pause::Invalid(_) => Some(KeptReason::Paused { scope, until: None }),
    };
    one(&cluster.annotations, "the cluster".to_owned())
        .or_else(|| one(&pool.disruption.annotations, format!("NodePool {}", pool.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_for_ever_or_until_a_time() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        let stated = |value: &str| pause(&StringMap::from([(PAUSE.to_owned(), value.to_owned())]), now);
        assert_eq!(pause(&StringMap::new(), now), Pause::None);
        assert_eq!(stated("false"), Pause::None);
        assert_eq!(stated("true"), Pause::Paused { until: None });
        assert_eq!(stated("2026-01-31T11:59:59Z"), Pause::None);
        assert_eq!(stated("2026-01-31T13:00:00Z"), Pause::Paused { until: "2026-01-31T13:00:00Z".parse().ok() });
        assert!(matches!(stated("tomorrow"), Pause::Invalid(why) if why.contains("\"tomorrow\"")));
    }
}
