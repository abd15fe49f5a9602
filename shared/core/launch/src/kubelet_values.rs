//! The values of expressions in the kubelet's configuration, for user data: nodes get no expressions, because the plan was made with
//! the values.

use nodeless_api::nodeclass::KubeletConfiguration;
use nodeless_api::nodeclass::kubelet::{self, ReservedField};
use nodeless_api::{EC2NodeClassSpec, Quantity};
use nodeless_model::instance::LaunchCandidate;
use nodeless_model::resources::name;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The values of expressions, by field and resource.
pub type ReservedValues = BTreeMap<(ReservedField, String), String>;

/// The field and resource of each expression of a class. A class with an invalid configuration has none: it is not launched.
#[must_use]
pub fn expressions(spec: &EC2NodeClassSpec) -> Vec<(ReservedField, String)> {
    let kubelet = kubelet::parse(&spec.kubelet).unwrap_or_default();
    kubelet.reserved_expressions().map(|(field, resource, _)| (field, resource.to_owned())).collect()
}

/// The values of expressions for the instance type of a candidate.
#[must_use]
pub fn values(expressions: &[(ReservedField, String)], candidate: &LaunchCandidate) -> ReservedValues {
    let value = |(field, resource): &(ReservedField, String)| {
        let reserved = match field {
            ReservedField::Kube => &candidate.kube_reserved,
            ReservedField::System => &candidate.system_reserved,
        };
        let quantity = reserved.get(resource);
        let text = match resource.as_str() {
            name::MEMORY | name::EPHEMERAL_STORAGE => quantity.to_binary_string(),
            _ => quantity.to_decimal_string(),
        };
        ((*field, resource.clone()), text)
    };
    expressions.iter().map(value).collect()
}

/// The kubelet's configuration, typed and with all fields, in which values replace expressions.
#[must_use]
pub fn with_values(
    mut kubelet: KubeletConfiguration,
    fields: &BTreeMap<String, Value>,
    values: &ReservedValues,
) -> (KubeletConfiguration, BTreeMap<String, Value>) {
    let mut fields = fields.clone();
    for ((field, resource), value) in values {
        kubelet.reserved_mut(*field).insert(resource.clone(), Quantity(value.clone()));
        if let Some(reserved) = fields.get_mut(field.name()).and_then(Value::as_object_mut) {
            reserved.insert(resource.clone(), json!(value));
        }
    }
    (kubelet, fields)
}

/// A value for each expression of a configuration, for user data that no node gets: only its length depends on them.
#[must_use]
pub fn placeholders(kubelet: &KubeletConfiguration) -> ReservedValues {
    let expressions = kubelet.reserved_expressions();
    expressions.map(|(field, resource, _)| ((field, resource.to_owned()), "1000Mi".to_owned())).collect()
}
