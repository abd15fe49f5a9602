//! Custom resources, which may lack required fields, and NodePools and NodeClaims, which may be of another controller.

use super::metadata::HasMetadata;
use super::{Incoming, Reader};
use crate::complete;
use crate::decode::{Undecoded, decode_tree, tree, without_nulls};
use crate::documents::Body;
use crate::kinds::PlannedKind;
use crate::objects::Key;
use nodeless_api::managed::{self, Owned, RefersToClass};
use nodeless_api::{NodeClaim, NodePool};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A custom resource, as it was given, and with the fields that were missing.
struct Completed {
    /// Only of a kind that is checked.
    given: Option<Value>,
    value: Value,
}

impl Completed {
    fn new(kind: PlannedKind, body: &Body<'_>, fill: fn(&mut Value)) -> Self {
        let mut value = without_nulls(tree(body));
        let is_checked = matches!(kind, PlannedKind::NodePool | PlannedKind::NodeClass);
        let given = is_checked.then(|| value.clone());
        fill(&mut value);
        Self { given, value }
    }
}

impl Reader {
    /// A NodePool of nodeless or of another controller.
    pub(super) fn node_pool(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.owned::<NodePool>(incoming, body, complete::node_pool);
        match read {
            Some(Owned::Managed((key, pool))) => {
                self.objects.other_node_pools.remove(&key);
                self.keep(incoming, Some((key, complete::pool(&pool))), |objects| &mut objects.node_pools);
            }
            Some(Owned::Other(other)) => {
                let key = (String::new(), other.name.clone());
                self.objects.node_pools.remove(&key);
                self.keep(incoming, Some((key, other)), |objects| &mut objects.other_node_pools);
            }
            None => {}
        }
    }

    /// A NodeClaim of nodeless or of another controller.
    pub(super) fn node_claim(&mut self, incoming: &Incoming<'_>, body: &Body<'_>) {
        let read = self.owned::<NodeClaim>(incoming, body, complete::node_claim);
        match read {
            Some(Owned::Managed((key, claim))) => {
                self.objects.other_node_claims.remove(&key);
                let placed = (incoming.place.clone(), claim);
                self.keep(incoming, Some((key, placed)), |objects| &mut objects.node_claims);
            }
            Some(Owned::Other(other)) => {
                let key = (String::new(), other.name.clone());
                self.objects.node_claims.remove(&key);
                self.keep(incoming, Some((key, other)), |objects| &mut objects.other_node_claims);
            }
            None => {}
        }
    }

    /// A custom resource with its key. In a cluster only fields with defaults may be missing; in manifests users also omit
    /// required fields that planning does not use.
    pub(super) fn custom<T: DeserializeOwned + HasMetadata>(
        &mut self,
        incoming: &Incoming<'_>,
        body: &Body<'_>,
        fill: fn(&mut Value),
    ) -> Option<(Key, T)> {
        self.accepted(incoming, body, &Completed::new(incoming.kind, body, fill))
    }

    /// Like [`custom`](Self::custom), for a NodePool or NodeClaim, which may be of another controller.
    fn owned<T: RefersToClass + HasMetadata>(
        &mut self,
        incoming: &Incoming<'_>,
        body: &Body<'_>,
        fill: fn(&mut Value),
    ) -> Option<Owned<(Key, T), T::Other>> {
        let completed = Completed::new(incoming.kind, body, fill);
        match managed::other::<T>(&completed.value) {
            Some(other) => Some(Owned::Other(other)),
            None => self.accepted(incoming, body, &completed).map(Owned::Managed),
        }
    }

    fn accepted<T: DeserializeOwned + HasMetadata>(
        &mut self,
        incoming: &Incoming<'_>,
        body: &Body<'_>,
        Completed { given, value }: &Completed,
    ) -> Option<(Key, T)> {
        match decode_tree::<T>(value).and_then(|object| self.checked(incoming, given.as_ref(), value).map(|()| object))
        {
            Ok(object) => self.named(incoming, body, object),
            Err(undecoded) => {
                self.refuse(incoming, body, undecoded);
                None
            }
        }
    }

    /// The first error of an object that no API server has accepted: one of a cluster has a uid, and its definition may be older. Errors
    /// about fields that were missing are not counted.
    fn checked(&self, incoming: &Incoming<'_>, given: Option<&Value>, value: &Value) -> Result<(), Undecoded> {
        let (Some(check), Some(given)) = (self.check, given) else { return Ok(()) };
        if given.pointer("/metadata/uid").is_some() {
            return Ok(());
        }
        let errors = check(incoming.kind.name(), value);
        let counted = errors.into_iter().find(|(field, _)| complete::is_given(incoming.kind, given, field));
        counted.map_or(Ok(()), |(field, problem)| Err(Undecoded { field, problem }))
    }
}
