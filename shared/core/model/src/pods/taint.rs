//! Taints of nodes and tolerations of pods.

use crate::labels;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// New pods are not scheduled, running pods are evicted.
    NoExecute,
}

impl TaintEffect {
    /// The name in the Kubernetes API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A taint on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The key, such as `karpenter.sh/disrupted`.
    pub key: String,
    /// The value; often empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect.
    pub effect: TaintEffect,
}

/// The operator of a toleration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// Any value of the key.
    Exists,
    /// This value of the key.
    #[default]
    Equal,
    /// Integers that are less than this value.
    Lt,
    /// Integers that are greater than this value.
    Gt,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The key; empty with `Exists` tolerates every taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The operator.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// The value, with `Equal`, `Lt` and `Gt`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect that is tolerated; none means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a `NoExecute` taint is tolerated, in seconds; `None` means forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Taint {
    /// A taint without a value.
    #[must_use]
    pub fn new(key: &str, effect: TaintEffect) -> Self {
        Self { key: key.to_owned(), value: String::new(), effect }
    }

    /// The taint of nodes that are being disrupted, which keeps new pods away.
    #[must_use]
    pub fn disrupted() -> Self {
        Self::new(labels::DISRUPTED_TAINT, TaintEffect::NoSchedule)
    }

    /// The taint that a node carries until its claim has recognised it.
    #[must_use]
    pub fn unregistered() -> Self {
        Self::new(labels::UNREGISTERED_TAINT, TaintEffect::NoExecute)
    }

    /// The taint of registered nodes that are not open for pods yet.
    #[must_use]
    pub fn joining() -> Self {
        Self::new(labels::JOINING_TAINT, TaintEffect::NoSchedule)
    }

    /// The startup taint of nodes on which DaemonSets have to be ready before other pods.
    #[must_use]
    pub fn daemon_sets_not_ready() -> Self {
        Self::new(labels::DAEMON_SETS_NOT_READY_TAINT, TaintEffect::NoSchedule)
    }

    /// The taint of nodes whose instances node repair reboots, which keeps new pods away until they have booted.
    #[must_use]
    pub fn rebooting() -> Self {
        Self::new(labels::REBOOTING_TAINT, TaintEffect::NoSchedule)
    }

    /// Whether both have the same key and effect, which identify a taint in Kubernetes.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    /// Whether a joining node is expected to lose this taint by itself: one of Karpenter's known ephemeral taints, or the taint
    /// of joining or rebooting nodes.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        use TaintEffect::{NoExecute, NoSchedule};
        match (self.key.as_str(), self.effect) {
            (labels::NOT_READY_TAINT, NoSchedule | NoExecute)
            | (labels::UNREACHABLE_TAINT, NoSchedule)
            | (labels::UNREGISTERED_TAINT, NoExecute)
            | (labels::JOINING_TAINT | labels::REBOOTING_TAINT, NoSchedule) => true,
            (labels::CLOUD_PROVIDER_UNINITIALIZED_TAINT, NoSchedule) => self.value == "true",
            (key, _) => key.starts_with("readiness.k8s.io/"),
        }
    }
}

impl Toleration {
    /// Whether this toleration covers the taint, by Kubernetes' rules.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        match self.operator {
            TolerationOperator::Exists => self.key.is_empty() || self.key == taint.key,
            TolerationOperator::Equal => self.key == taint.key && self.value == taint.value,
            TolerationOperator::Lt => self.key == taint.key && self.compared(taint) == Some(Ordering::Less),
            TolerationOperator::Gt => self.key == taint.key && self.compared(taint) == Some(Ordering::Greater),
        }
    }

    /// How the value of a taint compares with that of the toleration; `None` if one of them is no decimal integer of 64 bits.
    fn compared(&self, taint: &Taint) -> Option<Ordering> {
        // Kubernetes allows neither a plus sign nor leading zeros.
        let number = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
        Some(number(&taint.value)?.cmp(&number(&self.value)?))
    }
}

/// The first taint that none of the tolerations covers. `None` means that the pod may go there.
///
/// `PreferNoSchedule` counts as a hard taint, as in Karpenter's first pass: it is relaxed by adding a toleration.
#[must_use]
pub fn first_untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

impl fmt::Display for Taint {
    /// `key=value:Effect`, as kubectl writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: Option<TaintEffect>) -> Toleration {
        Toleration { key: key.into(), operator, value: value.into(), effect, toleration_seconds: None }
    }

    #[test]
    fn tolerates_by_kubernetes_rules() {
        use TolerationOperator::{Equal, Exists};
        let taint = Taint { key: "team".into(), value: "a".into(), effect: TaintEffect::NoSchedule };
        for (tolerated, toleration) in [
            (true, toleration("team", Equal, "a", None)),
            (false, toleration("team", Equal, "b", None)),
            (true, toleration("team", Exists, "", Some(TaintEffect::NoSchedule))),
            (false, toleration("team", Exists, "", Some(TaintEffect::NoExecute))),
            (true, toleration("", Exists, "", None)),
            (false, toleration("other", Exists, "", None)),
        ] {
            assert_eq!(toleration.tolerates(&taint), tolerated, "{toleration:?}");
            assert_eq!(first_untolerated(std::slice::from_ref(&taint), &[toleration]).is_none(), tolerated);
        }
        assert_eq!(taint.to_string(), "team=a:NoSchedule");
    }

    #[test]
    fn numbers_are_compared_as_the_kube_scheduler_does() {
        use TolerationOperator::{Gt, Lt};
        let taint = |value: &str| Taint { key: "sla".into(), value: value.into(), effect: TaintEffect::NoSchedule };
        for (value, operator, than, tolerated) in [
            ("950", Gt, "900", true),
            ("900", Gt, "900", false),
            ("10", Lt, "9", false),
            ("-5", Lt, "0", true),
            ("950", Lt, "900", false),
            ("high", Gt, "900", false),
            ("0950", Gt, "900", false),
            ("+950", Gt, "900", false),
            ("950", Gt, "9e2", false),
            ("9223372036854775808", Gt, "900", false),
        ] {
            assert_eq!(toleration("sla", operator, than, None).tolerates(&taint(value)), tolerated, "{value} {than}");
        }
        assert!(!toleration("other", Gt, "900", None).tolerates(&taint("950")));
    }

    #[test]
    fn knows_the_taints_that_go_by_themselves() {
        assert!(Taint::unregistered().is_ephemeral() && Taint::joining().is_ephemeral());
        assert!(Taint::new("readiness.k8s.io/network", TaintEffect::NoSchedule).is_ephemeral());
        assert!(!Taint::disrupted().is_ephemeral());
        assert!(!Taint::new(labels::UNREACHABLE_TAINT, TaintEffect::NoExecute).is_ephemeral());
    }
}
