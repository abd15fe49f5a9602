//! Conditions of objects whose status the planner writes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodeless_api::{Condition, ConditionStatus};

/// A condition that is true with a reason, or false with a reason and a message. It keeps the transition time of the present one
/// unless the status changes.
pub(crate) fn condition(
    kind: &str,
    holds: Result<&str, (&str, String)>,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let (status, reason, message) = match holds {
        Ok(reason) => (ConditionStatus::True, reason, String::new()),
        Err((reason, message)) => (ConditionStatus::False, reason, message),
    };
    with_status(kind, status, reason, message, before, now)
}

/// A condition with any status. It keeps the transition time of the present one unless the status changes.
pub(crate) fn with_status(
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: String,
    before: &[Condition],
    now: Timestamp,
) -> Condition {
    let same = before.iter().find(|old| old.type_ == kind && old.status == status);
    Condition {
        type_: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        // The API server stores whole seconds.
        last_transition_time: same.map_or_else(|| Time(whole(now)), |old| old.last_transition_time.clone()),
        observed_generation: None,
    }
}

/// The condition that states whether ResourceQuotas do not allow all virtual pods of an object, and why; none if that never was so.
pub(crate) fn limited_by_quotas(why: Option<&str>, before: &[Condition], now: Timestamp) -> Option<Condition> {
    const KIND: &str = "LimitedByQuotas";
    let (status, message) = match why {
        Some(why) => (ConditionStatus::True, why),
        None => (ConditionStatus::False, "the ResourceQuotas of the namespace allow all pods"),
    };
    let is_stated = why.is_some() || before.iter().any(|condition| condition.type_ == KIND);
    is_stated.then(|| with_status(KIND, status, "ResourceQuotasAllocated", message.to_owned(), before, now))
}

fn whole(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_changes_with_its_status_only() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = condition("Ready", Ok("Ready"), &[], at(1));
        let again = condition("Ready", Ok("Other"), std::slice::from_ref(&first), at(2));
        assert_eq!((again.last_transition_time.0, again.reason.as_str()), (at(1), "Other"));
        let failed = condition("Ready", Err(("No", "why".into())), &[again], at(3));
        assert_eq!((failed.last_transition_time.0, failed.status), (at(3), ConditionStatus::False));
    }
}
