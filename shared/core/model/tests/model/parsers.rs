//! Properties of every text that is read as a quantity, a selector or a requirement. The fuzz targets in `fuzz/` assert the same.

use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{LabelSelector, Operator, Quantity, Requirements, StringMap};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Texts that are quantities, or nearly so.
fn quantity() -> impl Strategy<Value = String> {
    prop_oneof![
        r"[+-]?[0-9]{0,22}(\.[0-9]{0,12})?(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,3})",
        r"[0-9eEmKi.+-]{0,12}",
        any::<String>(),
    ]
}

fn term() -> impl Strategy<Value = RequirementTerm> {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    let operator = prop::sample::select(vec![In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte]);
    let value = prop_oneof![r"[0-9]{1,3}", r"[a-c]", r"-?[0-9]{1,20}"];
    let min_values = prop::option::of(0..4_u32);
    (r"[a-c]", operator, prop::collection::vec(value, 0..4), min_values)
        .prop_map(|(key, operator, values, min_values)| RequirementTerm { key, operator, values, min_values })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn a_quantity_is_read_as_it_is_written(text in quantity()) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            for written in [quantity.to_decimal_string(), quantity.to_binary_string()] {
                prop_assert_eq!(written.parse(), Ok(quantity), "{} is written {}", text, written);
            }
        }
    }

    #[test]
    fn any_json_is_a_selector_or_an_error(text in r#"\{"match(Labels|Expressions)":[\[{]("(key|operator|values|a)":("(In|NotIn|Exists|Near|a)"|\[("a")?\]),?){0,4}[\]}]\}"#) {
        if let Ok(selector) = serde_json::from_str::<LabelSelector>(&text) {
            let _ = selector.matches(&StringMap::new());
            let written = serde_json::to_string(&selector).unwrap();
            prop_assert_eq!(serde_json::from_str::<LabelSelector>(&written).unwrap(), selector);
        }
    }

    #[test]
    fn requirements_keep_their_form_once_written(terms in prop::collection::vec(term(), 0..5)) {
        if let Ok(requirements) = Requirements::from_terms(&terms) {
            let written = requirements.to_terms();
            let read = Requirements::from_terms(&written);
            prop_assert!(read.is_ok(), "{:?} is written {:?}", terms, written);
            prop_assert_eq!(read.unwrap().to_terms(), written);
            prop_assert_eq!(requirements.with(&requirements), requirements);
        }
    }

    #[test]
    fn an_intersection_has_what_both_have(one in term(), other in term(), value in r"[0-9]{1,3}|[a-d]") {
        let read = |term: &RequirementTerm| {
            nodeless_model::Requirement::from_term(&RequirementTerm { key: "a".into(), ..term.clone() }).ok()
        };
        if let (Some(one), Some(other)) = (read(&one), read(&other)) {
            let both = one.intersection(&other);
            prop_assert_eq!(both.has(&value), one.has(&value) && other.has(&value));
            prop_assert_eq!(&both, &other.intersection(&one));
            prop_assert!(!both.has(&value) || one.intersects(&other));
        }
    }
}
