//! Limits of the whole cluster: annotations of the Namespace `kube-system`.

use crate::resources::name;
use crate::{Quantity, ResourceList, StringMap};
use serde::{Deserialize, Serialize};

/// The annotation of the Namespace `kube-system`: the maximum price of the nodes of all NodePools together, in dollars per hour.
pub const MAX_DOLLARS_PER_HOUR: &str = "nodeless.sh/max-dollars-per-hour";
/// The annotation of the Namespace `kube-system`: the maximum number of nodes of all NodePools together.
pub const MAX_NODES: &str = "nodeless.sh/max-nodes";
/// The annotation of the Namespace `kube-system`: the maximum number of CPUs of the nodes of all NodePools together.
pub const MAX_CPU: &str = "nodeless.sh/max-cpu";

/// The limits of all NodePools together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterLimits {
    /// The limits of `nodes` and `cpu`. What is not listed is unlimited.
    pub resources: ResourceList,
    /// The limit in dollars per hour.
    pub dollars_per_hour: Option<f64>,
}

/// An annotation with an invalid value. Its limit is zero, because the user meant to prevent launches beyond an amount that is
/// unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLimit {
    /// The annotation.
    pub annotation: &'static str,
    /// The problem and its fix.
    pub message: String,
}

impl ClusterLimits {
    /// The limits by the annotations of the Namespace `kube-system`, and the annotations with an invalid value.
    #[must_use]
    pub fn of(annotations: &StringMap) -> (Self, Vec<InvalidLimit>) {
        let (mut limits, mut invalid) = (Self::default(), Vec::new());
        for (annotation, resource) in [(MAX_NODES, name::NODES), (MAX_CPU, name::CPU)] {
            let Some(text) = annotations.get(annotation) else { continue };
            let amount = text.parse::<Quantity>().ok().filter(|amount| *amount >= Quantity::ZERO);
            if amount.is_none() {
                invalid.push(InvalidLimit::new(annotation, text, "\"200\""));
            }
            limits.resources.set(resource, amount.unwrap_or(Quantity::ZERO));
        }
        if let Some(text) = annotations.get(MAX_DOLLARS_PER_HOUR) {
            let millionths = Quantity::parse_millionths(text).ok().filter(|millionths| *millionths >= 0);
            if millionths.is_none() {
                invalid.push(InvalidLimit::new(MAX_DOLLARS_PER_HOUR, text, "\"12.50\""));
            }
            #[expect(clippy::cast_precision_loss, reason = "amounts of money stay far below 2^53 millionths")]
            let dollars = millionths.unwrap_or(0) as f64 / 1e6;
            limits.dollars_per_hour = Some(dollars);
        }
        (limits, invalid)
    }

    /// Whether there are no limits.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.resources.is_empty() && self.dollars_per_hour.is_none()
    }
}

/// The annotation that sets the limit of a resource, or of dollars per hour for any other name.
#[must_use]
pub fn annotation_of(resource: &str) -> &'static str {
    match resource {
        name::NODES => MAX_NODES,
        name::CPU => MAX_CPU,
        _ => MAX_DOLLARS_PER_HOUR,
    }
}

impl InvalidLimit {
    fn new(annotation: &'static str, text: &str, example: &str) -> Self {
        let message = format!(
            "annotation {annotation} is {text:?}, and no node is launched until it is corrected: write a quantity that is not \
             negative, such as {example}, or remove it"
        );
        Self { annotation, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(annotations: &[(&str, &str)]) -> (ClusterLimits, Vec<InvalidLimit>) {
        ClusterLimits::of(&annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn what_is_not_annotated_is_unlimited() {
        let (limits, invalid) = of(&[("nodeless.sh/pause-disruption", "true")]);
        assert!(limits.are_none() && invalid.is_empty());
    }

    #[test]
    fn limits_are_quantities() {
        let (limits, invalid) = of(&[(MAX_NODES, "20"), (MAX_CPU, "1500m"), (MAX_DOLLARS_PER_HOUR, "12.50")]);
        assert_eq!(limits.resources.get("nodes"), Quantity::from_units(20));
        assert_eq!(limits.resources.get("cpu"), Quantity::from_milli(1500));
        assert_eq!(limits.dollars_per_hour, Some(12.5));
        assert!(invalid.is_empty() && !limits.are_none());
    }

    #[test]
    fn an_invalid_limit_is_zero() {
        for (key, value) in [(MAX_NODES, "many"), (MAX_NODES, "-1"), (MAX_CPU, ""), (MAX_DOLLARS_PER_HOUR, "$5")] {
            let (limits, invalid) = of(&[(key, value)]);
            assert!(!limits.are_none(), "{key} {value}");
            assert!(limits.resources.iter().all(|(_, limit)| limit.is_zero()), "{key} {value}");
            assert_eq!(limits.dollars_per_hour.unwrap_or(0.0), 0.0, "{key} {value}");
            assert_eq!(invalid.len(), 1);
            assert_eq!(invalid[0].annotation, key);
            assert!(invalid[0].message.contains(&format!("{value:?}")), "{}", invalid[0].message);
        }
    }

    #[test]
    fn each_limit_names_its_annotation() {
        assert_eq!(annotation_of("nodes"), MAX_NODES);
        assert_eq!(annotation_of("cpu"), MAX_CPU);
        assert_eq!(annotation_of("dollars-per-hour"), MAX_DOLLARS_PER_HOUR);
    }
}
