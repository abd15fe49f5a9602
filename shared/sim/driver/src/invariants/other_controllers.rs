//! What nodeless writes about the objects of another controller: nothing.

use super::text;
use crate::Driver;
use crate::scenarios::other_objects::is_of_other;
use nodeless_fake_kubernetes::resource::{EVENTS, NODES};
use nodeless_fake_kubernetes::{Change, Resource};
use nodeless_world::ports::FIELD_MANAGER;
use nodeless_world::resources::{NODE_CLAIMS, NODE_POOLS};

/// The kinds that controllers with Karpenter's API share.
static SHARED: [Resource; 3] = [NODE_POOLS, NODE_CLAIMS, NODES];

/// A change by nodeless of an object of another controller, or an Event of nodeless about one.
pub(super) fn written(driver: &Driver, change: &Change) -> Option<String> {
    if change.user != Some(FIELD_MANAGER) {
        return None;
    }
    let before = change.previous.as_deref().unwrap_or(&change.object);
    if is_of_other(&change.resource, before) || is_of_other(&change.resource, &change.object) {
        return Some(format!("{} {} was written: {:?}", change.resource.kind, change.name(), change.kind));
    }
    if change.resource != EVENTS {
        return None;
    }
    let (kind, name) = (text(&change.object, "/involvedObject/kind"), text(&change.object, "/involvedObject/name"));
    let resource = SHARED.iter().find(|resource| resource.kind == kind)?;
    let about = driver.world().api().get(resource, "", name).ok()?;
    let reason = text(&change.object, "/reason");
    is_of_other(resource, &about).then(|| format!("{kind} {name} got the Event {reason}"))
}
