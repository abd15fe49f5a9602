//! The reboots of a claim's instance by node repair.

use super::NodeClaim;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long a reboot counts, and how many there are within that time at most, as in Karpenter.
const COUNTS_FOR: SignedDuration = SignedDuration::from_hours(24);
const MAX_REBOOTS: usize = 2;

/// A reboot of the instance. It is written before the node is drained, and its call before EC2 is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reboot {
    /// The unhealthy condition, in one sentence.
    pub why: String,
    /// When it was decided.
    pub requested: Timestamp,
    /// When the drain ends. Pods that are on the node then restart with it.
    pub drained_by: Timestamp,
    /// The call of EC2; `None` while the node is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<RebootCall>,
    /// How it ended; `None` while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RebootEnd>,
}

/// The call that reboots an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RebootCall {
    /// The boot id that the node had. Another one proves the reboot.
    pub boot_id: String,
    /// When EC2 was called first.
    pub first: Timestamp,
    /// When EC2 was called last.
    pub last: Timestamp,
}

/// The end of a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RebootEnd {
    /// When.
    pub at: Timestamp,
    /// Whether the node was ready again.
    pub succeeded: bool,
}

impl NodeClaim {
    /// The reboot in progress.
    #[must_use]
    pub fn rebooting(&self) -> Option<&Reboot> {
        self.status.reboots.last().filter(|reboot| reboot.end.is_none() && !self.phase.is_leaving())
    }

    /// Whether node repair may reboot the instance: it did so at most once within a day, and the node was ready again.
    #[must_use]
    pub fn may_be_rebooted(&self, now: Timestamp) -> bool {
        let mut recent = self.recent_reboots(now);
        recent.clone().count() < MAX_REBOOTS && recent.all(|one| one.end.as_ref().is_some_and(|end| end.succeeded))
    }

    /// Whether the last reboot that still counts has failed: node repair replaces the node, and no pod is to be bound there until then.
    #[must_use]
    pub fn reboot_failed(&self, now: Timestamp) -> bool {
        let last = self.recent_reboots(now).last();
        last.and_then(|reboot| reboot.end.as_ref()).is_some_and(|end| !end.succeeded)
    }

    /// The reboots that still count.
    pub fn recent_reboots(&self, now: Timestamp) -> impl Iterator<Item = &Reboot> + Clone {
        self.status.reboots.iter().filter(move |reboot| now.duration_since(reboot.requested) < COUNTS_FOR)
    }

    /// When the node was ready again after the last reboot, if that succeeded: no condition is older.
    #[must_use]
    pub fn back_since(&self) -> Option<Timestamp> {
        let end = self.status.reboots.last()?.end.as_ref()?;
        end.succeeded.then_some(end.at)
    }
}
