//! A rotation of the cluster's certificate authority, by what the user data of instances trusts.

use crate::Driver;
use crate::scenarios::other_objects::is_instance_of_other;
use nodeless_model::claim::condition;
use nodeless_model::{NodeClaim, labels};
use nodeless_world::resources::NODE_CLASSES;
use std::collections::BTreeSet;

/// The instances that were launched since an activation, and the claims whose nodes a rotation has replaced.
#[derive(Debug, Default)]
pub(in crate::invariants) struct AuthorityChecks {
    launched: BTreeSet<String>,
    replaced: BTreeSet<String>,
    /// The successor of the rotation.
    successor: u32,
}

impl AuthorityChecks {
    /// The instances that were launched after the activation of an authority that they do not trust.
    pub(in crate::invariants) fn launched_without(&mut self, driver: &Driver) -> Vec<String> {
        let authorities = driver.world().certificate_authorities();
        if authorities.active() == 0 {
            return Vec::new();
        }
        let mut without = Vec::new();
        for instance in driver.world().ec2().instances() {
            let is_new = instance.launched > authorities.activated() && !is_instance_of_other(&instance);
            if is_new && self.launched.insert(instance.id.clone()) {
                let trusts = authorities.trusted_by(&instance).contains(&authorities.active());
                without.extend((!trusts).then(|| format!("instance {} lacks it", instance.id)));
            }
        }
        without
    }

    /// Why the node of a claim that drifted should not leave: it trusts all authorities, or it replaces one that left because it did not.
    pub(in crate::invariants) fn should_stay(&mut self, driver: &Driver, claim: &NodeClaim) -> Option<String> {
        let authorities = driver.world().certificate_authorities();
        let successor = authorities.present().iter().max().copied().filter(|successor| *successor > 0)?;
        if std::mem::replace(&mut self.successor, successor) != successor {
            self.replaced.clear();
        }
        claim.condition(condition::DRIFTED).filter(|drifted| drifted.reason == "NodeClassDrift")?;
        let id = claim.status.instance.as_ref().map(|instance| instance.id.as_str())?;
        let instance = driver.world().ec2().instances().into_iter().find(|instance| instance.id == id)?;
        let trusted = authorities.trusted_by(&instance);
        if authorities.present().iter().all(|authority| trusted.contains(authority)) {
            let is_of_class = is_of_present_class(driver, claim);
            return is_of_class.then(|| format!("claim {} leaves, and its node trusts all", claim.name));
        }
        self.replaced.insert(claim.name.clone());
        let before = claim.spec.replaces.iter().find(|name| self.replaced.contains(*name))?;
        Some(format!("claim {} leaves, and so did {before}, which it replaces", claim.name))
    }
}

/// Whether the EC2NodeClass of a claim has the spec with which it was launched.
fn is_of_present_class(driver: &Driver, claim: &NodeClaim) -> bool {
    let Ok(class) = driver.world().api().get(&NODE_CLASSES, "", &claim.node_class) else { return false };
    let hash = class["metadata"]["annotations"][labels::EC2_NODE_CLASS_HASH].as_str().unwrap_or_default();
    claim.spec.annotations.get(labels::EC2_NODE_CLASS_HASH).is_some_and(|launched| launched == hash)
}
