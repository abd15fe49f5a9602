//! Conditions of an EC2NodeClass.

use jiff::Timestamp;
use nodeless_api::{Condition, ConditionStatus, EC2NodeClass};
use nodeless_model::{ErrorKind, PortError};

/// A problem of an EC2NodeClass, for a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason in CamelCase.
    pub reason: &'static str,
    /// The message: the field, what was searched, and what to do.
    pub message: String,
}

impl Problem {
    /// A problem with this reason and message.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The result of a search, and its problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Section<T> {
    /// The objects found.
    pub value: T,
    /// The problem, if any.
    pub problem: Option<Problem>,
}

impl<T> Section<T> {
    /// A result without a problem.
    pub fn ready(value: T) -> Self {
        Self { value, problem: None }
    }
}

/// Handles a failed search. After a temporary error, the whole status is kept. An error that a user has to fix becomes a
/// condition, and the previous result is kept, because an unreadable resource may still exist.
///
/// # Errors
/// The error, if a retry may succeed.
pub fn or_previous<T>(field: &str, found: Result<Section<T>, PortError>, before: T) -> Result<Section<T>, PortError> {
    match found {
        Ok(section) => Ok(section),
        Err(error) if error.is_retryable() => Err(error),
        Err(error) => {
            let reason = if error.kind == ErrorKind::Denied { "AccessDenied" } else { "RequestRefused" };
            let message = format!("{field}: {error}; the previous result is kept");
            Ok(Section { value: before, problem: Some(Problem::new(reason, message)) })
        }
    }
}

/// The conditions of a class. `sections` are the conditions that Ready and ValidationSucceeded depend on, `validation` is a
/// problem of the class itself. Unchanged conditions keep their times.
pub fn conditions(
    class: &EC2NodeClass,
    sections: &[(&'static str, Option<Problem>)],
    validation: Option<Problem>,
    now: Timestamp,
) -> Vec<Condition> {
    let broken: Vec<&str> = sections.iter().filter(|(_, problem)| problem.is_some()).map(|(name, _)| *name).collect();
    let validation = validation.or_else(|| {
        let message = || format!("Awaiting {}", broken.join(", "));
        (!broken.is_empty()).then(|| Problem::new("DependenciesNotReady", message()))
    });
    let mut all = sections.to_vec();
    all.push(("ValidationSucceeded", validation));
    let broken: Vec<String> =
        all.iter().filter(|(_, problem)| problem.is_some()).map(|(name, _)| format!("{name}=False")).collect();
    let ready = (!broken.is_empty()).then(|| Problem::new("UnhealthyDependents", broken.join(", ")));
    all.push(("Ready", ready));
    let known = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    all.into_iter()
        .map(|(name, problem)| {
            let status = if problem.is_none() { ConditionStatus::True } else { ConditionStatus::False };
            let before = known.iter().find(|condition| condition.type_ == name && condition.status == status);
            let Problem { reason, message } = problem.unwrap_or_else(|| Problem::new(name, ""));
            Condition {
                type_: name.to_owned(),
                status,
                reason: reason.to_owned(),
                message,
                last_transition_time: before
                    .map_or_else(|| now.into(), |condition| condition.last_transition_time.clone()),
                observed_generation: class.metadata.generation,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_api::EC2NodeClassStatus;
    use nodeless_api::test_support::ec2_node_class;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn class(conditions: Vec<Condition>) -> EC2NodeClass {
        let mut class = ec2_node_class("default", "example", &json!({}));
        class.metadata.generation = Some(3);
        class.status = Some(EC2NodeClassStatus { conditions, ..EC2NodeClassStatus::default() });
        class
    }

    fn one<'a>(conditions: &'a [Condition], name: &str) -> &'a Condition {
        conditions.iter().find(|condition| condition.type_ == name).unwrap()
    }

    #[test]
    fn a_class_without_problems_is_ready() {
        let conditions = conditions(&class(Vec::new()), &[("SubnetsReady", None)], None, at(5));
        assert!(conditions.iter().all(|condition| condition.status == ConditionStatus::True), "{conditions:?}");
        let names: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(names, ["SubnetsReady", "ValidationSucceeded", "Ready"]);
        let ready = one(&conditions, "Ready");
        assert_eq!((ready.reason.as_str(), ready.observed_generation), ("Ready", Some(3)));
    }

    #[test]
    fn a_class_with_a_problem_is_not_ready() {
        let problem = Problem::new("SubnetsNotFound", "none");
        let conditions =
            conditions(&class(Vec::new()), &[("SubnetsReady", Some(problem)), ("AMIsReady", None)], None, at(5));
        assert_eq!(one(&conditions, "SubnetsReady").reason, "SubnetsNotFound");
        assert_eq!(one(&conditions, "ValidationSucceeded").reason, "DependenciesNotReady");
        assert_eq!(one(&conditions, "ValidationSucceeded").message, "Awaiting SubnetsReady");
        assert_eq!(one(&conditions, "Ready").message, "SubnetsReady=False, ValidationSucceeded=False");
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let first = conditions(&class(Vec::new()), &[("SubnetsReady", None)], None, at(5));
        let problem = Problem::new("Unsupported", "no");
        let second = conditions(&class(first), &[("SubnetsReady", None)], Some(problem), at(9));
        assert_eq!(one(&second, "SubnetsReady").last_transition_time, at(5).into());
        assert_eq!(one(&second, "Ready").last_transition_time, at(9).into());
    }

    #[test]
    fn an_error_that_a_user_has_to_fix_keeps_the_previous_result() {
        let error = |kind| PortError::new(kind, "EC2 DescribeSubnets", "no");
        let kept = or_previous("spec.subnetSelectorTerms", Err(error(ErrorKind::Denied)), vec![1]).unwrap();
        assert_eq!(kept.value, [1]);
        let problem = kept.problem.unwrap();
        assert!(problem.reason == "AccessDenied" && problem.message.contains("DescribeSubnets"), "{problem:?}");
        assert!(or_previous("spec.subnetSelectorTerms", Err(error(ErrorKind::Throttled)), vec![1]).is_err());
    }
}
