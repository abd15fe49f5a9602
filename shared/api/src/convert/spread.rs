//! The required topology spread of a pod that is bound to no node.

use nodeless_model::labels;
use nodeless_model::object::RequiredSpread;
use serde_json::Value;

/// The required constraints of `spec.topologySpreadConstraints` over other keys than the hostname; `None` if there are none.
#[must_use]
pub fn required_spread(constraints: &[Value]) -> Option<RequiredSpread> {
    let is_required = |constraint: &&Value| {
        constraint["whenUnsatisfiable"] != "ScheduleAnyway" && constraint["topologyKey"] != labels::HOSTNAME
    };
    let required: Vec<&Value> = constraints.iter().filter(is_required).collect();
    let max_skew = required.iter().filter_map(|constraint| constraint["maxSkew"].as_u64()).min()?;
    Some(RequiredSpread {
        constraints: required.iter().map(|constraint| constraint.to_string()).collect(),
        max_skew: u32::try_from(max_skew).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_required_constraints_over_other_keys_than_the_hostname_count() {
        let constraint = |key: &str, when: &str, max_skew: u32| {
            let selector = json!({ "matchLabels": { "app": "web" } });
            json!({ "topologyKey": key, "whenUnsatisfiable": when, "maxSkew": max_skew, "labelSelector": selector })
        };
        let zone = constraint(labels::ZONE, "DoNotSchedule", 2);
        let soft = constraint(labels::ZONE, "ScheduleAnyway", 1);
        let host = constraint(labels::HOSTNAME, "DoNotSchedule", 1);
        assert_eq!(required_spread(&[]), None);
        assert_eq!(required_spread(&[soft.clone(), host.clone()]), None);
        let found = required_spread(&[soft, zone.clone(), host]).unwrap();
        assert_eq!((found.max_skew, found.constraints), (2, zone.to_string()));
        let rack = constraint("example.com/rack", "DoNotSchedule", 1);
        assert_eq!(required_spread(&[zone, rack]).unwrap().max_skew, 1);
    }
}
