//! The faults and edits that are in effect.

use super::ScenarioError;
use super::edit::Edit;
use super::objects::apply;
use crate::Driver;
use jiff::{SignedDuration, Timestamp};
use nodeless_fake_aws::{CapacityType, OfferingPattern, QuotaFamily};
use nodeless_world::memory::Backup;
use serde_json::Value;
use std::collections::BTreeMap;

/// A fault or an edit that ends at a time.
#[derive(Debug)]
pub(super) enum End {
    Shortage(OfferingPattern),
    ZonalShift(String),
    Edit(Edit),
    Denial(String),
    ZoneFailure(String),
    SlowDetachments(SignedDuration),
    UnreadyPods(Vec<String>),
    HangingPods(Vec<String>),
    /// The key and the value of their label.
    RefusedPods(String, String),
    /// A capacity type, and its quota of vCPUs.
    Quota(CapacityType, u64),
}

/// Faults that are in effect, with the times at which they end.
#[derive(Debug, Default)]
pub(crate) struct ActiveFaults {
    ends: Vec<(Timestamp, End)>,
    /// The backups of the claims table that are restored, by their times.
    backups: BTreeMap<Timestamp, Backup>,
}

impl ActiveFaults {
    pub(super) fn back_up(&mut self, at: Timestamp, backup: Backup) {
        self.backups.insert(at, backup);
    }

    /// The backup that was made at this time: the nearest, because a run may be a step late.
    pub(super) fn backup_of(&self, at: Timestamp) -> Option<&Backup> {
        let distance = |made: &Timestamp| made.duration_since(at).abs();
        self.backups.iter().min_by_key(|(made, _)| distance(made)).map(|(_, backup)| backup)
    }

    pub(super) fn add(&mut self, until: Timestamp, end: End) {
        self.ends.push((until, end));
    }

    /// When the next fault ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.ends.iter().map(|(at, _)| *at).min()
    }

    /// Ends what is due, or everything with `all`.
    ///
    /// # Errors
    /// When the API server refuses an object that a user corrects or creates again.
    pub(crate) fn end(&mut self, driver: &mut Driver, now: Timestamp, all: bool) -> Result<(), ScenarioError> {
        let due: Vec<End> = self.ends.extract_if(.., |(until, _)| all || *until <= now).map(|(_, end)| end).collect();
        for end in due {
            match end {
                End::ZonalShift(zone) => drop(driver.world_mut().cancel_zonal_shift(&zone)),
                End::Shortage(pattern) => driver.world().ec2().restore(pattern),
                End::ZoneFailure(zone) => {
                    let others = |end: &End| matches!(end, End::ZoneFailure(other) if *other == zone);
                    if !self.ends.iter().any(|(_, end)| others(end)) {
                        driver.world_mut().recover_zone(&zone);
                    }
                }
                End::UnreadyPods(pods) => pods.iter().for_each(|pod| driver.world_mut().set_pod_ready(pod, true)),
                End::HangingPods(pods) => pods.iter().for_each(|pod| driver.world_mut().set_pod_stops(pod, true)),
                End::RefusedPods(key, value) => driver.world_mut().set_refused(&key, &value, false),
                End::SlowDetachments(_) => {
                    let mut others = self.ends.iter().filter_map(|(_, end)| match end {
                        End::SlowDetachments(take) => Some(*take),
                        _ => None,
                    });
                    driver.world_mut().set_detachment(others.next_back());
                }
                End::Denial(api) => {
                    let others = self.ends.iter().any(|(_, end)| matches!(end, End::Denial(other) if *other == api));
                    if !others {
                        driver.world().ec2().allow(&api);
                    }
                }
                End::Quota(capacity_type, _) => {
                    let mut others = self.ends.iter().filter_map(|(_, end)| match end {
                        End::Quota(other, vcpus) if *other == capacity_type => Some(*vcpus),
                        _ => None,
                    });
                    set_quota(driver, capacity_type, others.next_back());
                }
                End::Edit(edit) => edit.revert(driver)?,
            }
        }
        Ok(())
    }

    /// Creates or changes an object. An object that a user deleted, and is to create again, is created first.
    pub(super) fn apply(&mut self, driver: &Driver, object: &Value) -> Result<(), ScenarioError> {
        let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let deleted = |end: &End| match end {
            End::Edit(edit @ Edit::Deleted(_)) => edit.concerns(text("/kind"), text("/metadata/name")),
            _ => false,
        };
        for (_, end) in self.ends.extract_if(.., |(_, end)| deleted(end)) {
            if let End::Edit(edit) = end {
                edit.revert(driver)?;
            }
        }
        apply(driver, object)
    }

    /// The edits of users that are in effect.
    pub(super) fn edits(&self) -> impl Iterator<Item = &Edit> {
        self.ends.iter().filter_map(|(_, end)| match end {
            End::Edit(edit) => Some(edit),
            _ => None,
        })
    }
}

fn standard(capacity_type: CapacityType) -> (CapacityType, QuotaFamily) {
    (capacity_type, QuotaFamily::Standard)
}

/// Sets or removes the quota of the Standard families.
pub(super) fn set_quota(driver: &Driver, capacity_type: CapacityType, vcpus: Option<u64>) {
    driver.world().ec2().change_account(|account| match vcpus {
        Some(vcpus) => drop(account.vcpu_quotas.insert(standard(capacity_type), vcpus)),
        None => drop(account.vcpu_quotas.remove(&standard(capacity_type))),
    });
}
