//! The reads that a step needs.

use crate::daemon_sets;
use crate::observation::Observation;
use crate::settings::Settings;
use crate::{launch, reboot, termination, without_instance};
use jiff::Timestamp;
use nodeless_model::{NodeClaim, Phase};

/// The parts of an [`Observation`](crate::Observation) that a step uses. Nothing else is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each names one independent read")]
pub struct Needs {
    /// The EC2NodeClass.
    pub node_class: bool,
    /// Whether the NodePool exists.
    pub node_pool: bool,
    /// The instance.
    pub instance: bool,
    /// The launch group.
    pub launch_group: bool,
    /// The nodes.
    pub nodes: bool,
    /// Whether awaited DaemonSets are ready, once there is a node.
    pub daemon_sets: bool,
    /// The pods on the nodes.
    pub pods: bool,
    /// The NodeClaim object.
    pub mirror: bool,
}

impl Needs {
    /// The parts that the next step of a claim uses.
    ///
    /// EC2 is called as rarely as possible. While a node is expected to join, its instance is not read: the sweep compares all
    /// instances once a minute, and EC2 sends an event when one stops. Only a partition that EC2 chose is looked up.
    #[must_use]
    pub fn new(claim: &NodeClaim) -> Self {
        let launched = claim.status.instance.is_some();
        let present = !claim.phase.is_leaving();
        Self {
            node_class: claim.phase < Phase::Launched,
            node_pool: present && !claim.is_standalone(),
            instance: launched
                && match claim.phase {
                    Phase::Launched | Phase::WarmLaunched => claim.status.awaits_partition,
                    Phase::Gone => false,
                    _ => true,
                },
            launch_group: match claim.phase {
                Phase::Reserved | Phase::WarmReserved => launch::answer_was_lost(claim),
                Phase::Terminating => without_instance::may_have_an_instance(claim),
                _ => false,
            },
            nodes: launched,
            daemon_sets: (Phase::Launched..Phase::Initialized).contains(&claim.phase) && daemon_sets::is_closed(claim),
            pods: launched && (matches!(claim.phase, Phase::Draining | Phase::Preparing) || reboot::needs_pods(claim)),
            mirror: present,
        }
    }

    /// Whether a step at this time also uses the volumes attached to the nodes: only once the drain waits for nothing else, because
    /// reading them reads all VolumeAttachments of the cluster.
    #[must_use]
    pub fn volume_attachments(claim: &NodeClaim, seen: &Observation, now: Timestamp, settings: &Settings) -> bool {
        claim.phase == Phase::Draining && termination::is_drained(claim, seen, now, settings)
    }
}
