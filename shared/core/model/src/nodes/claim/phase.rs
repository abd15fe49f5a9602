//! The phases of a claim.

use serde::{Deserialize, Serialize};

/// The phase of a claim, in the order of how far its node is: a stopped instance has none, as one that was launched.
///
/// | phase | then, if it does not begin to terminate |
/// |---|---|
/// | Reserved, WarmReserved | Launched, WarmLaunched |
/// | Launched | Registered, Initialized |
/// | WarmLaunched | Preparing; Initialized if the record is older than that |
/// | Stopped | Starting; Launched or Stopping if another party started the instance |
/// | Starting | Launched; Stopped if EC2 lacks capacity |
/// | Registered | Initialized |
/// | Preparing | Stopping; Registered if it is open for pods |
/// | Stopping | Stopped; Registered if it is open for pods; Preparing if EC2 refuses the stop |
///
/// From Stopping, a claim whose Node is not registered goes to Launched and WarmLaunched in place of Registered and Preparing. A claim
/// that terminates passes through Draining, Terminating and Gone. It drains again if its instance is found only then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Recorded and charged to its NodePool's limits; no instance is known.
    Reserved,
    /// The same of a claim whose instance is to be stopped once its node has joined: a warm one.
    WarmReserved,
    /// An instance was launched, or started again; its node has not joined yet.
    Launched,
    /// The same of a warm one. Its node is registered cordoned.
    WarmLaunched,
    /// The instance is stopped. It has no Node.
    Stopped,
    /// A plan took the claim of a stopped instance for pods: the instance is being started.
    Starting,
    /// The node joined and was registered.
    Registered,
    /// The node of a warm one was registered, so that the pods of DaemonSets start there and their images are pulled.
    Preparing,
    /// The instance is being stopped; its Node is deleted once EC2 reports that it is stopped.
    Stopping,
    /// The node was initialized.
    Initialized,
    /// The claim is terminating; its node is being drained.
    Draining,
    /// The node is drained or never joined; the instance is being terminated.
    Terminating,
    /// Nothing is left in EC2 or the cluster; the record can be deleted.
    Gone,
}

impl Phase {
    /// Whether the claim is terminating.
    #[must_use]
    pub fn is_leaving(self) -> bool {
        self >= Self::Draining
    }

    /// The name that users see: that of the phase in which a node is as far that is not warm.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved | Self::WarmReserved => "Reserved",
            Self::Launched | Self::WarmLaunched | Self::Stopped | Self::Starting => "Launched",
            Self::Registered | Self::Preparing | Self::Stopping => "Registered",
            Self::Initialized => "Initialized",
            Self::Draining => "Draining",
            Self::Terminating => "Terminating",
            Self::Gone => "Gone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{PHASES, node_claim};
    use crate::{
        ConditionStatus, NodeClaim,
        claim::{condition, reason},
    };

    #[test]
    fn what_a_phase_is_shown_as_never_goes_back() {
        assert!(PHASES.is_sorted_by_key(|phase| PHASES.iter().position(|other| other.as_str() == phase.as_str())));
        let leaving = PHASES.into_iter().filter(|phase| phase.is_leaving());
        assert!(leaving.eq([Phase::Draining, Phase::Terminating, Phase::Gone]));
    }

    #[test]
    fn a_claim_that_terminates_is_stopped_if_its_conditions_show_that() {
        let is_stopped = |launched, reason| {
            let mut claim = NodeClaim { phase: Phase::Draining, ..node_claim("a") };
            claim.set_condition(condition::LAUNCHED, launched, "", "", claim.created);
            claim.set_condition(condition::REGISTERED, ConditionStatus::Unknown, reason, "", claim.created);
            claim.is_stopped()
        };
        assert!(is_stopped(ConditionStatus::True, reason::STOPPED));
        assert!(!is_stopped(ConditionStatus::True, "NodeNotFound"));
        assert!(!is_stopped(ConditionStatus::Unknown, reason::STOPPED), "it may have been started");
    }
}
