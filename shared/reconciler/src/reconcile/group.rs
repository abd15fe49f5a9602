//! The record of a launch group: its members, and the owner of each instance.

use super::Reconciler;
use nodeless_lifecycle::group::{Owners, assign, lacks_instance};
use nodeless_model::instance::LaunchOutcome;
use nodeless_model::{Instance, NodeClaim};
use nodeless_ports::{ErrorKind, PortError};
use nodeless_state::launch_groups::StoredLaunchGroup;

/// How many times the record is written when other processes write it too.
const ATTEMPTS: u32 = 6;

/// A launch group whose instance owners are recorded.
pub(super) struct Shared {
    pub(super) owners: Owners,
    /// The existing claims, in the order of their places.
    members: Vec<NodeClaim>,
}

impl Shared {
    /// The members that have no recorded instance.
    pub(super) fn without_instance(&self) -> impl Iterator<Item = &NodeClaim> {
        self.members.iter().filter(|member| lacks_instance(member))
    }
}

impl Reconciler {
    /// Records the owners of the instances of an answer. EC2 may repeat an old answer, so an instance that already had an owner
    /// is given to no other claim: it may have ended with its owner.
    pub(super) async fn share_answer(&self, claim: &NodeClaim, answer: &LaunchOutcome) -> Result<Shared, PortError> {
        self.write_owners(claim, &answer.instances, false).await
    }

    /// Records the owners of instances that EC2 lists now.
    pub(super) async fn share(&self, claim: &NodeClaim, listed: &[Instance]) -> Result<Shared, PortError> {
        self.write_owners(claim, listed, true).await
    }

    async fn write_owners(&self, claim: &NodeClaim, found: &[Instance], listed: bool) -> Result<Shared, PortError> {
        for _ in 0..ATTEMPTS {
            let Some(mut group) = self.stored_group(claim).await? else {
                // Instances with the tag of a group of one belong to its only member, and no other process writes that record.
                let members = vec![claim.clone()];
                let owners = assign(&Owners::new(), &members, found).unwrap_or_default();
                return Ok(Shared { owners, members });
            };
            let members = self.present(&group).await?;
            let fresh = found.iter().filter(|instance| listed || !group.owners.contains_key(&instance.id));
            let fresh: Vec<Instance> = fresh.cloned().collect();
            let Some(owners) = assign(&group.owners, &members, &fresh) else {
                return Ok(Shared { owners: group.owners, members });
            };
            group.owners = owners;
            match self.claims.put_launch_group(&group, self.context.now()).await {
                Ok(_) => return Ok(Shared { owners: group.owners, members }),
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        let message = format!(
            "the launch group of NodeClaim {} was written by other processes {ATTEMPTS} times in a row",
            claim.name
        );
        Err(PortError::new(ErrorKind::Unavailable, "write the launch group", message))
    }

    /// The existing claims of a claim's launch group, including itself, in the order of their places.
    pub(super) async fn members(&self, claim: &NodeClaim) -> Result<Vec<NodeClaim>, PortError> {
        match self.stored_group(claim).await? {
            Some(group) => self.present(&group).await,
            None => Ok(vec![claim.clone()]),
        }
    }

    async fn present(&self, group: &StoredLaunchGroup) -> Result<Vec<NodeClaim>, PortError> {
        let mut members = self.claims.get_all(&group.members).await?;
        members.retain(|member| place(member, &group.id).is_some());
        members.sort_by_key(|member| place(member, &group.id));
        Ok(members)
    }

    /// The record of the group, for groups of several members. A missing record is created from the existing claims.
    pub(super) async fn stored_group(&self, claim: &NodeClaim) -> Result<Option<StoredLaunchGroup>, PortError> {
        let Some(group) = claim.spec.launch_group.as_ref().filter(|group| group.size > 1) else { return Ok(None) };
        if let Some(stored) = self.claims.launch_group(&group.id).await? {
            return Ok(Some(stored));
        }
        let mut all = self.claims.list().await?;
        all.retain(|member| place(member, &group.id).is_some());
        all.sort_by_key(|member| place(member, &group.id));
        let members = all.into_iter().map(|member| member.name).collect();
        let made = StoredLaunchGroup { id: group.id.clone(), version: 0, members, owners: Owners::new() };
        match self.claims.put_launch_group(&made, self.context.now()).await {
            Ok(version) => Ok(Some(StoredLaunchGroup { version, ..made })),
            Err(error) if error.kind == ErrorKind::Conflict => self.claims.launch_group(&group.id).await,
            Err(error) => Err(error),
        }
    }
}

/// A claim's place in the group with this id.
fn place(claim: &NodeClaim, group: &str) -> Option<u32> {
    claim.spec.launch_group.as_ref().filter(|theirs| theirs.id == group).map(|theirs| theirs.index)
}
