//! Any JSON as a label selector, and as requirements of a node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeless_model::requirement::RequirementTerm;
use nodeless_model::{LabelSelector, Requirements, StringMap};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(selector) = serde_json::from_slice::<LabelSelector>(bytes) {
        assert!(!selector.match_labels.is_empty() || selector.matches(&selector.match_labels) || !selector.match_expressions.is_empty());
        let _ = selector.matches(&StringMap::new());
    }
    if let Ok(terms) = serde_json::from_slice::<Vec<RequirementTerm>>(bytes)
        && let Ok(requirements) = Requirements::from_terms(&terms)
    {
        // Once written in the API's form, they no longer change.
        let written = requirements.to_terms();
        let read = Requirements::from_terms(&written).expect("what is written can be read");
        assert_eq!(read.to_terms(), written);
        assert_eq!(requirements.with(&requirements), requirements);
    }
});
