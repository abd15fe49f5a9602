//! The types that several of the custom resources share.

use crate::custom::rules::{self, QUALIFIED_NAME};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;
use std::fmt;

/// A resource quantity as written (`100m`, `1Gi`); a whole number in JSON is taken as its text.
///
/// The text is kept, so that writing an object back does not reformat what a person wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a string such as \"100m\" or \"1Gi\", or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A reference to the object that specifies how instances are launched: an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct NodeClassReference {
    /// The API group: `karpenter.k8s.aws`.
    #[schemars(regex(pattern = r"^[^/]*$"))]
    #[schemars(extend("x-kubernetes-validations" = rules::rules(&[("group may not be empty", "self != ''")])))]
    pub group: String,
    /// The kind: `EC2NodeClass`.
    #[schemars(extend("x-kubernetes-validations" = rules::rules(&[("kind may not be empty", "self != ''")])))]
    pub kind: String,
    /// The name of the object.
    #[schemars(extend("x-kubernetes-validations" = rules::rules(&[("name may not be empty", "self != ''")])))]
    pub name: String,
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Operator {
    #[allow(missing_docs)]
    In,
    #[allow(missing_docs)]
    NotIn,
    #[allow(missing_docs)]
    Exists,
    #[allow(missing_docs)]
    DoesNotExist,
    #[allow(missing_docs)]
    Gt,
    #[allow(missing_docs)]
    Lt,
    #[allow(missing_docs)]
    Gte,
    #[allow(missing_docs)]
    Lte,
}

/// A requirement on the labels of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Requirement {
    /// The label's key.
    #[schemars(length(max = 316), regex(pattern = QUALIFIED_NAME))]
    pub key: String,
    /// The operator that relates the label to the values.
    pub operator: Operator,
    /// At least one value for In and NotIn, one whole number for Gt, Lt, Gte and Lte, none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
    /// The minimum number of different values that stay possible when instance types are chosen, for flexibility.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50))]
    pub min_values: Option<i32>,
}

impl Requirement {
    /// A requirement without `minValues`.
    #[must_use]
    pub fn new(key: &str, operator: Operator, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Self { key: key.to_owned(), operator, values, min_values: None }
    }
}

/// Requirements of a NodePool.
pub(crate) fn node_pool_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(generator, rules::node_pool_requirement_key())
}

/// Requirements of a NodeClaim.
pub(crate) fn node_claim_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(generator, rules::node_claim_requirement_key())
}

/// Requirements of a NodeOverlay, which know no `minValues`.
pub(crate) fn node_overlay_requirements(generator: &mut SchemaGenerator) -> Schema {
    let mut item = requirement(generator, rules::node_overlay_requirement_key());
    if let Some(properties) = item.pointer_mut("/properties").and_then(serde_json::Value::as_object_mut) {
        properties.remove("minValues");
    }
    let not_in = (
        "requirements with operator 'NotIn' must have a value defined",
        "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
    );
    list_of(&item, &[not_in, IN_HAS_VALUES, BOUND_IS_ONE_NUMBER])
}

fn requirements(generator: &mut SchemaGenerator, key_rules: serde_json::Value) -> Schema {
    let min_values = (
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
        "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
    );
    list_of(&requirement(generator, key_rules), &[IN_HAS_VALUES, BOUND_IS_ONE_NUMBER, min_values])
}

fn requirement(generator: &mut SchemaGenerator, key_rules: serde_json::Value) -> Schema {
    let mut item = generator.subschema_for::<Requirement>();
    if let Some(key) = item.pointer_mut("/properties/key").and_then(serde_json::Value::as_object_mut) {
        key.insert("x-kubernetes-validations".to_owned(), key_rules);
    }
    item
}

const IN_HAS_VALUES: (&str, &str) = (
    "requirements with operator 'In' must have a value defined",
    "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
);
const BOUND_IS_ONE_NUMBER: (&str, &str) = (
    "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
    "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') \
     ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)",
);

fn list_of(item: &Schema, validations: &[(&str, &str)]) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "items": item,
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": rules::rules(validations),
    })
}

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum TaintEffect {
    #[allow(missing_docs)]
    NoSchedule,
    #[allow(missing_docs)]
    PreferNoSchedule,
    #[allow(missing_docs)]
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The taint's key.
    #[schemars(length(min = 1), regex(pattern = QUALIFIED_NAME))]
    pub key: String,
    /// The taint's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = QUALIFIED_NAME))]
    pub value: Option<String>,
    /// The effect of the taint on pods that do not tolerate it.
    pub effect: TaintEffect,
    /// When the taint was put on the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is unknown whether the condition holds.
    #[default]
    Unknown,
}

/// A condition of an object. The schema is in `rules`, since NodeClaims are laxer than the other two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The type, such as `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the condition holds.
    pub status: ConditionStatus,
    /// Why, in one CamelCase word. NodePools and EC2NodeClasses must not leave it empty.
    #[serde(default)]
    pub reason: String,
    /// Details for a person.
    #[serde(default)]
    pub message: String,
    /// When the status last changed.
    pub last_transition_time: Time,
    /// The generation of the object that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
