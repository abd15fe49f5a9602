//! Kinds with two representations of one set of objects. Objects are stored in one of them.

use crate::server::resource::{
    EVENTS, HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1, NEW_EVENTS, Resource,
};
use crate::server::{autoscaling, events};
use serde_json::Value;

/// A kind with two representations.
pub(in crate::server) struct Pair {
    pub(in crate::server) stored: Resource,
    pub(in crate::server) other: Resource,
    pub(in crate::server) to_stored: fn(Value) -> Value,
    pub(in crate::server) to_other: fn(Value) -> Value,
}

static PAIRS: [Pair; 2] = [
    Pair { stored: EVENTS, other: NEW_EVENTS, to_stored: events::to_core, to_other: events::to_new },
    Pair {
        stored: HORIZONTAL_POD_AUTOSCALERS,
        other: HORIZONTAL_POD_AUTOSCALERS_V1,
        to_stored: autoscaling::to_v2,
        to_other: autoscaling::to_v1,
    },
];

/// The two representations of a resource, if it has another.
pub(in crate::server) fn pair(resource: &Resource) -> Option<&'static Pair> {
    PAIRS.iter().find(|pair| pair.stored == *resource || pair.other == *resource)
}

/// The other representation of a resource, if it has one.
pub(in crate::server) fn other(resource: &Resource) -> Option<&'static Resource> {
    pair(resource).map(|pair| if pair.stored == *resource { &pair.other } else { &pair.stored })
}

/// Whether objects of a resource are stored as those of another.
pub(in crate::server) fn is_converted(resource: &Resource) -> bool {
    pair(resource).is_some_and(|pair| pair.other == *resource)
}
