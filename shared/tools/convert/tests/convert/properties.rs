//! Any text: no panic, and what is not converted stays as it is.

use crate::common::source;
use nodeless_convert::{Options, convert};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_text_is_converted_or_refused(text in "[-a-z0-9:{}\\[\\]#|>&*!'\" \n\t]{0,200}") {
        let conversion = convert(&[source(&text)], &Options::default());
        if conversion.problems.is_empty() {
            prop_assert_eq!(&conversion.files[0].text, &text);
        }
    }

    #[test]
    fn any_values_survive_a_conversion(value in "\\PC{0,40}", lines in prop::collection::vec("[ -~]{0,20}", 0..4)) {
        let object = serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1beta1",
            "kind": "EC2NodeClass",
            "metadata": { "name": "a" },
            "spec": { "amiFamily": "AL2023", "role": "r", "tags": { "a": value }, "userData": lines.join("\n") },
        });
        prop_assume!(!value.contains("{{"));
        let conversion = convert(&[source(&object.to_string())], &Options::default());
        let problems = conversion.problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        prop_assert_eq!(problems, Vec::<String>::new());
        let converted = &conversion.objects[0].value;
        prop_assert_eq!(&converted["spec"]["tags"], &object["spec"]["tags"]);
        prop_assert_eq!(&converted["spec"]["userData"], &object["spec"]["userData"]);
        // The text that is written has the same value: converting it again changes nothing.
        let again = convert(&conversion.files, &Options::default());
        prop_assert_eq!(&again.files, &conversion.files);
    }
}
