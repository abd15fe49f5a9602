//! NodePools and NodeClaims, decoded according to whose they are ([`nodeless_model::managed`]).
//!
//! The class is read before anything else. An object of another controller is never invalid, whatever its fields are.

use crate::convert::capacity_of_other;
use crate::{NodeClaim, NodePool, slim};
use nodeless_model::{ClassKind, OtherNodeClaim, OtherNodePool};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object of nodeless, or what is read of an object of another controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned<T, O> {
    /// nodeless manages it.
    Managed(T),
    /// Another controller does.
    Other(O),
}

impl<T, O> Owned<T, O> {
    /// The object, if nodeless manages it.
    pub fn managed(self) -> Option<T> {
        match self {
            Self::Managed(object) => Some(object),
            Self::Other(_) => None,
        }
    }

    /// Converts the object, if nodeless manages it.
    ///
    /// # Errors
    /// Those of the conversion.
    pub fn convert<M, E>(self, convert: impl FnOnce(T) -> Result<M, E>) -> Result<Owned<M, O>, E> {
        Ok(match self {
            Self::Managed(object) => Owned::Managed(convert(object)?),
            Self::Other(other) => Owned::Other(other),
        })
    }

    /// The objects of nodeless, and those of other controllers.
    pub fn separate(all: impl IntoIterator<Item = Self>) -> (Vec<T>, Vec<O>) {
        let (mut managed, mut others) = (Vec::new(), Vec::new());
        for one in all {
            match one {
                Self::Managed(object) => managed.push(object),
                Self::Other(other) => others.push(other),
            }
        }
        (managed, others)
    }
}

/// What refers to a class: a NodePool or a NodeClaim.
pub trait RefersToClass: DeserializeOwned {
    /// What is read of an object of another controller.
    type Other;

    /// The kind of the class; `None` if the reference is missing and decoding the object fails because of that.
    fn class_of(object: &ClassOutline) -> Option<ClassKind>;

    /// What is read of an object of another controller. `whole` decodes all of it.
    fn of_other(name: String, class: ClassKind, whole: impl FnOnce() -> Option<NodeClaim>) -> Self::Other;
}

/// The fields that decide whose an object is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClassOutline {
    metadata: Name,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_class_ref: Option<ClassKind>,
    template: Template,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Template {
    spec: TemplateSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TemplateSpec {
    node_class_ref: Option<ClassKind>,
}

impl RefersToClass for NodePool {
    type Other = OtherNodePool;

    fn class_of(object: &ClassOutline) -> Option<ClassKind> {
        object.spec.template.spec.node_class_ref.clone()
    }

    fn of_other(name: String, class: ClassKind, _whole: impl FnOnce() -> Option<NodeClaim>) -> OtherNodePool {
        OtherNodePool { name, class }
    }
}

macro_rules! node_claim {
    ($kind:ty) => {
        impl RefersToClass for $kind {
            type Other = OtherNodeClaim;

            fn class_of(object: &ClassOutline) -> Option<ClassKind> {
                Some(object.spec.node_class_ref.clone().unwrap_or_default())
            }

            fn of_other(name: String, class: ClassKind, whole: impl FnOnce() -> Option<NodeClaim>) -> OtherNodeClaim {
                let whole = whole();
                let provider_id = whole.as_ref().and_then(|claim| claim.status.as_ref()?.provider_id.clone());
                let provider_id = provider_id.filter(|id| !id.is_empty());
                let capacity = whole.and_then(|claim| capacity_of_other(claim).ok()).map(Box::new);
                OtherNodeClaim { name, class, provider_id, capacity }
            }
        }
    };
}

node_claim!(slim::NodeClaim);
node_claim!(NodeClaim);

/// The kind of the class of another controller; `None` if the object is one of nodeless, or cannot be decoded at all.
fn class_of_other<T: RefersToClass>(outline: &ClassOutline) -> Option<ClassKind> {
    T::class_of(outline).filter(|class| !class.is_managed())
}

/// Whether nodeless manages a NodePool or NodeClaim. One that cannot be decoded at all is not changed.
#[must_use]
pub fn is_managed<T: RefersToClass>(object: &Value) -> bool {
    ClassOutline::deserialize(object).is_ok_and(|outline| T::class_of(&outline).is_some_and(|class| class.is_managed()))
}

/// What is read of a NodePool or NodeClaim, if it is of another controller.
#[must_use]
pub fn other<T: RefersToClass>(object: &Value) -> Option<T::Other> {
    let outline = ClassOutline::deserialize(object).ok()?;
    let class = class_of_other::<T>(&outline)?;
    Some(T::of_other(outline.metadata.name, class, || NodeClaim::deserialize(object).ok()))
}

impl<'de, T: RefersToClass> Deserialize<'de> for Owned<T, T::Other> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let outline = serde_json::from_str::<ClassOutline>(text.get()).unwrap_or_default();
        match class_of_other::<T>(&outline) {
            Some(class) => {
                let whole = || serde_json::from_str(text.get()).ok();
                Ok(Self::Other(T::of_other(outline.metadata.name, class, whole)))
            }
            None => serde_json::from_str(text.get()).map(Self::Managed).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{auto_mode_node_claim, auto_mode_node_pool};
    use nodeless_model::{Phase, Quantity};
    use serde_json::json;

    type ReadPool = Owned<NodePool, OtherNodePool>;
    type ReadClaim = Owned<slim::NodeClaim, OtherNodeClaim>;

    fn class(group: &str, kind: &str) -> Value {
        json!({ "group": group, "kind": kind, "name": "default" })
    }

    #[test]
    fn a_node_pool_of_auto_mode_is_not_ours_although_its_class_has_the_name_of_one_of_ours() {
        let mut object = auto_mode_node_pool();
        let auto_mode = ClassKind { group: "eks.amazonaws.com".to_owned(), kind: "NodeClass".to_owned() };
        let expected = OtherNodePool { name: "general-purpose".to_owned(), class: auto_mode };
        assert_eq!(serde_json::from_value::<ReadPool>(object.clone()).unwrap(), Owned::Other(expected.clone()));
        assert_eq!(other::<NodePool>(&object), Some(expected.clone()));
        assert!(!is_managed::<NodePool>(&object));
        // Fields that this program does not know do not make an object of others invalid.
        object["spec"]["disruption"]["consolidationPolicy"] = json!("WhenAWSLikes");
        object["spec"]["template"]["spec"]["requirements"][0]["operator"] = json!("Near");
        assert_eq!(serde_json::from_value::<ReadPool>(object.clone()).unwrap(), Owned::Other(expected));

        object["spec"]["template"]["spec"]["nodeClassRef"] = class("karpenter.k8s.aws", "EC2NodeClass");
        assert!(is_managed::<NodePool>(&object) && other::<NodePool>(&object).is_none());
        assert!(serde_json::from_value::<ReadPool>(object).is_err(), "of an object of nodeless they do");
    }

    #[test]
    fn a_node_pool_without_a_class_is_reported_as_invalid() {
        let mut object = auto_mode_node_pool();
        object["spec"]["template"]["spec"].as_object_mut().unwrap().remove("nodeClassRef");
        let error = serde_json::from_value::<ReadPool>(object.clone()).unwrap_err().to_string();
        assert!(error.contains("nodeClassRef"), "{error}");
        assert!(!is_managed::<NodePool>(&object));
    }

    #[test]
    fn a_node_claim_of_another_controller_is_read_as_capacity() {
        let mut object = auto_mode_node_claim();
        object["metadata"]["uid"] = json!("u-1");
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["spec"]["resources"] = json!({ "requests": { "cpu": "3" } });
        let read = |object: &Value| match serde_json::from_value::<ReadClaim>(object.clone()).unwrap() {
            Owned::Other(claim) => claim,
            Owned::Managed(claim) => panic!("{claim:?}"),
        };
        let joining = read(&object);
        assert_eq!((joining.name.as_str(), joining.provider_id.as_deref()), ("general-purpose-abcde", None));
        let capacity = joining.capacity.unwrap();
        assert_eq!((capacity.phase, capacity.node_pool.as_deref()), (Phase::Reserved, None));
        assert_eq!(capacity.spec.requests.get("cpu"), Quantity::from_units(3));

        let at = "2026-01-01T00:00:09Z";
        object["status"] = json!({
            "providerID": "aws:///us-east-1a/i-0123456789abcdef0",
            "allocatable": { "cpu": "1930m" },
            "conditions": [{ "type": "Launched", "status": "True", "reason": "", "message": "", "lastTransitionTime": at }],
        });
        let launched = read(&object);
        assert_eq!(launched.instance_id(), Some("i-0123456789abcdef0"));
        let capacity = launched.capacity.unwrap();
        assert_eq!((capacity.phase, capacity.status.instance.as_ref()), (Phase::Launched, None));
        assert_eq!(capacity.status.allocatable.get("cpu"), Quantity::from_milli(1930));

        object["spec"]["requirements"][0]["operator"] = json!("Near");
        assert_eq!(read(&object).capacity, None, "it is not counted, and not invalid");
        object["spec"].as_object_mut().unwrap().remove("nodeClassRef");
        assert!(!is_managed::<slim::NodeClaim>(&object), "one without a class is of nobody");
        object["spec"] = json!({ "nodeClassRef": class("karpenter.k8s.aws", "EC2NodeClass"), "requirements": [] });
        assert!(matches!(serde_json::from_value::<ReadClaim>(object).unwrap(), Owned::Managed(_)));
    }
}
