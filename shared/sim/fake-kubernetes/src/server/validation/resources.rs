//! The resources of containers and nodes, as `validateContainerResourceRequirements` of Kubernetes validates them.

use nodeless_model::Quantity;
use serde_json::{Map, Value, json};

use crate::server::path::Path as _;
use crate::server::status::FieldError;

const FORM: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The digits of the largest amount.
const MAX_DIGITS: usize = 19;

/// The requests and limits of a container.
pub(super) fn of_container(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let list = |kind: &str| container.at(&format!("/resources/{kind}"));
    for kind in ["limits", "requests"] {
        let path = format!("{path}.{kind}");
        amounts(list(kind), &path, errors);
        for name in fields(list(kind)).map(|(name, _)| name).filter(|name| !is_of_containers(name)) {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid(format!("{path}[{name}]"), &json!(name), detail));
        }
    }
    let limits = list("limits").and_then(Value::as_object);
    for (name, request) in fields(list("requests")) {
        against_limit(name, request, limits, path, errors);
    }
    let has = |matches: fn(&str) -> bool| {
        ["limits", "requests"].into_iter().any(|kind| fields(list(kind)).any(|(name, _)| matches(name)))
    };
    if has(is_huge_pages) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
}

/// Amounts that are not negative, and whole for resources that cannot be divided.
pub(super) fn amounts(map: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (name, value) in fields(map) {
        let path = format!("{path}[{name}]");
        let Some(amount) = quantity(value) else {
            errors.push(FieldError::invalid(path, value, FORM));
            continue;
        };
        if amount < Quantity::ZERO {
            errors.push(FieldError::invalid(&path, &shown(value), "must be greater than or equal to 0"));
        }
        if is_whole(name) && amount.milli() % 1000 != 0 {
            errors.push(FieldError::invalid(&path, &shown(value), "must be an integer"));
        }
    }
}

/// A request is at most the limit, and equal to it for resources that cannot be overcommitted.
fn against_limit(
    name: &str,
    request: &Value,
    limits: Option<&Map<String, Value>>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(limit) = limits.and_then(|limits| limits.get(name)) else {
        if !may_be_overcommitted(name) {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(format!("{path}.limits"), detail));
        }
        return;
    };
    let (Some(requested), Some(limited)) = (quantity(request), quantity(limit)) else { return };
    let relation = if requested != limited && !may_be_overcommitted(name) {
        "equal to"
    } else if requested > limited {
        "less than or equal to"
    } else {
        return;
    };
    let limit = text(limit);
    let detail = format!("must be {relation} {name} limit of {limit}");
    errors.push(FieldError::invalid(format!("{path}.requests"), &shown(request), &detail));
}

fn fields(map: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.and_then(Value::as_object).into_iter().flatten()
}

/// The amount of a quantity, which is a text or a number. As in the API server, a number that is too large is the largest
/// whole amount.
fn quantity(value: &Value) -> Option<Quantity> {
    let text = matches!(value, Value::String(_) | Value::Number(_)).then(|| text(value))?;
    let is_large = || text.len() > MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().or_else(|| is_large().then(|| Quantity::from_milli(Quantity::MAX.milli() / 1000 * 1000)))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A quantity as text, as messages have it.
fn shown(value: &Value) -> Value {
    Value::String(text(value))
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// A resource of Kubernetes itself, not an extended one.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_of_containers(name: &str) -> bool {
    name.contains('/') || matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name)
}

fn is_whole(name: &str) -> bool {
    name == "pods" || !is_native(name)
}

fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors of a container, as texts.
    fn errors(resources: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        of_container(&json!({ "resources": resources }), "resources", &mut errors);
        errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
    }

    #[test]
    fn a_request_is_at_most_its_limit() {
        let over = json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1024Mi"}});
        let expected = "resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1";
        assert_eq!(errors(&over), [expected]);
        assert!(errors(&json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "0.5"}})).is_empty());
    }

    #[test]
    fn amounts_are_not_negative_and_have_an_end() {
        let below = "must be greater than or equal to 0";
        let negative = errors(&json!({"requests": {"cpu": "-1"}, "limits": {"memory": -5}}));
        let expected = [
            format!("resources.limits[memory]: Invalid value: \"-5\": {below}"),
            format!("resources.requests[cpu]: Invalid value: \"-1\": {below}"),
        ];
        assert_eq!(negative, expected);
        for text in ["1 core", "", "inf", ".inf", "NaN", "1e99999999999", "--1", "1.2.3"] {
            let found = errors(&json!({"requests": {"cpu": text}}));
            assert!(found.len() == 1 && found[0].contains("quantities must match"), "{text}: {found:?}");
        }
        for text in ["100m", "1.5Gi", "1e3", "+1", ".5", "0", "12E"] {
            assert!(errors(&json!({"requests": {"cpu": text}})).is_empty(), "{text}");
        }
    }

    #[test]
    fn extended_resources_are_whole_and_equal_to_their_limits() {
        let gpu = |request: &str, limit: &str| {
            errors(&json!({"requests": {"nvidia.com/gpu": request}, "limits": {"nvidia.com/gpu": limit}}))
        };
        assert!(gpu("1", "1").is_empty());
        assert_eq!(
            gpu("1", "2"),
            ["resources.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"]
        );
        let half = gpu("500m", "500m");
        assert_eq!(half[0], "resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer");
        let without = errors(&json!({"requests": {"nvidia.com/gpu": "1"}}));
        assert_eq!(without, ["resources.limits: Required value: Limit must be set for non overcommitable resources"]);
    }

    #[test]
    fn containers_have_standard_resources() {
        let errors = |resource: &str| errors(&json!({"limits": {resource: "1"}}));
        assert_eq!(
            errors("pods"),
            ["resources.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers"]
        );
        assert_eq!(errors("hugepages-2Mi"), ["resources: Forbidden: HugePages require cpu or memory"]);
        assert!(errors("example.com/device").is_empty());
    }
}
