use super::*;
use crate::labels;

fn term(operator: Operator, values: &[&str]) -> Requirement {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Requirement::from_term(&RequirementTerm { key: "k".into(), operator, values, min_values: None }).unwrap()
}

#[test]
fn intersections_follow_set_algebra() {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    for (a, b, expected) in [
        (term(In, &["a", "b"]), term(In, &["b", "c"]), "In [b]"),
        (term(In, &["a"]), term(In, &["b"]), "DoesNotExist"),
        (term(In, &["a", "b"]), term(NotIn, &["b"]), "In [a]"),
        (term(NotIn, &["a"]), term(NotIn, &["b"]), "NotIn [a, b]"),
        (term(Exists, &[]), term(NotIn, &["a"]), "NotIn [a]"),
        (term(Exists, &[]), term(DoesNotExist, &[]), "DoesNotExist"),
        (term(Gt, &["2"]), term(Lt, &["5"]), "Gte 3, Lte 4"),
        (term(Gte, &["4"]), term(Lte, &["4"]), "Gte 4, Lte 4"),
        (term(Gt, &["4"]), term(Lt, &["4"]), "DoesNotExist"),
        (term(Gt, &["2"]), term(In, &["1", "3", "x"]), "In [3]"),
        (term(Gt, &["9223372036854775807"]), term(Exists, &[]), "DoesNotExist"),
    ] {
        assert_eq!(a.intersection(&b).to_string(), expected, "{a} and {b}");
        assert_eq!(b.intersection(&a).to_string(), expected, "{b} and {a}");
    }
}

#[test]
fn two_intersect_exactly_when_their_intersection_has_a_value() {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    let one = |operator, values: &[&str]| term(operator, values);
    let mut all = vec![
        one(In, &["1"]),
        one(In, &["1", "5", "x"]),
        one(In, &["5", "7"]),
        one(NotIn, &["1"]),
        one(NotIn, &["5", "x"]),
        one(Exists, &[]),
        one(DoesNotExist, &[]),
        one(Gt, &["4"]),
        one(Gte, &["5"]),
        one(Lt, &["5"]),
        one(Lte, &["5"]),
    ];
    all.extend(all.clone().iter().flat_map(|a| all.iter().map(|b| a.intersection(b))).collect::<Vec<_>>());
    for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
        let absent = a.allows_absence() && b.allows_absence();
        assert_eq!(a.intersects(b), absent || !a.intersection(b).is_empty(), "{a} and {b}");
    }
}

#[test]
fn all_keys_of_both_stand_together_in_their_order() {
    let values = |entries: &[(&str, &str)]| -> Requirements {
        entries.iter().map(|(key, value)| ((*key).to_owned(), Requirement::one_of([*value]))).collect()
    };
    let (a, b) = (values(&[("d", "1"), ("b", "1")]), values(&[("e", "1"), ("d", "2"), ("a", "1"), ("c", "1")]));
    for (one, other) in [(&a, &b), (&b, &a)] {
        let both = one.with(other);
        assert_eq!(both.to_string(), "a In [1]; b In [1]; c In [1]; d DoesNotExist; e In [1]");
        assert_eq!(one.first_conflict(other), Some("d"));
        let mut narrowed = one.clone();
        narrowed.add_all(other);
        assert_eq!(narrowed, both);
        narrowed.remove("d");
        assert_eq!((narrowed.get("d"), narrowed.iter().count()), (None, 4));
    }
}

#[test]
fn absence_satisfies_only_negative_requirements() {
    use Operator::{DoesNotExist, Exists, Gt, In, NotIn};
    for (requirement, absent) in [
        (term(In, &["a"]), false),
        (term(NotIn, &["a"]), true),
        (term(Exists, &[]), false),
        (term(DoesNotExist, &[]), true),
        (term(Gt, &["1"]), false),
    ] {
        assert_eq!(requirement.allows_absence(), absent, "{requirement}");
    }
    assert!(term(NotIn, &["a"]).intersects(&term(DoesNotExist, &[])));
    assert!(!term(In, &["a"]).intersects(&term(DoesNotExist, &[])));
}

#[test]
fn a_missing_label_is_unrestricted_only_if_allowed() {
    let node = Requirements::from([(labels::ZONE, Requirement::one_of(["a"]))]);
    let pod = Requirements::from([(labels::ARCH, Requirement::one_of(["arm64"]))]);
    assert_eq!(node.first_incompatible(&pod, |_| false), Some(labels::ARCH));
    assert_eq!(node.first_incompatible(&pod, labels::is_well_known), None);
    let custom = Requirements::from([("team", Requirement::one_of(["a"]))]);
    assert_eq!(node.first_incompatible(&custom, labels::is_well_known), Some("team"));
    let not_there = Requirements::from([("team", Requirement::none_of(["a"]))]);
    assert_eq!(node.first_incompatible(&not_there, labels::is_well_known), None);
}

#[test]
fn min_values_take_the_larger() {
    let few = Requirement::exists().with_min_values(Some(2));
    let many = Requirement::one_of(["a"]).with_min_values(Some(5));
    assert_eq!(few.intersection(&many).min_values(), Some(5));
}

#[test]
fn the_api_form_survives_a_round_trip() {
    let requirements = Requirements::from([
        ("beta.kubernetes.io/arch", Requirement::one_of(["arm64"])),
        ("cpu", term(Operator::Gt, &["3"]).intersection(&term(Operator::Lte, &["8"]))),
        ("team", Requirement::exists()),
        ("tier", Requirement::does_not_exist()),
    ]);
    let json = serde_json::to_string(&requirements).unwrap();
    assert!(json.contains(labels::ARCH), "{json}");
    assert_eq!(serde_json::from_str::<Requirements>(&json).unwrap(), requirements);
}

#[test]
fn refuses_bounds_that_are_no_numbers() {
    let bad = RequirementTerm { key: "k".into(), operator: Operator::Gt, values: vec!["x".into()], min_values: None };
    let error = Requirement::from_term(&bad).unwrap_err().to_string();
    assert!(error.contains("k Gt needs exactly one whole number"), "{error}");
    let empty = RequirementTerm { operator: Operator::In, values: vec![], ..bad };
    assert!(Requirement::from_term(&empty).is_err());
}

#[test]
fn names_one_value_that_satisfies() {
    for (requirement, value) in [
        (Requirement::one_of(["b", "a"]), Some("a")),
        (Requirement::exists(), Some("true")),
        (Requirement::none_of(["true", "0"]), Some("1")),
        (Requirement::does_not_exist(), None),
        (term(Operator::Gt, &["4"]), Some("5")),
        (term(Operator::Lt, &["4"]), Some("3")),
        (term(Operator::Gte, &["4"]).intersection(&Requirement::none_of(["4"])), Some("5")),
    ] {
        assert_eq!(requirement.some_value().as_deref(), value, "{requirement}");
    }
}
