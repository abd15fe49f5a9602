use super::*;

const M5_4XLARGE: Variables<'static> = Variables {
    instance_type: "m5.4xlarge",
    vcpus: 16,
    memory_mib: 65_536,
    default_enis: 8,
    ips_per_eni: 30,
    max_pods: 234,
};

fn value(text: &str) -> i64 {
    Expression::parse(text).unwrap().evaluate(&M5_4XLARGE).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn variables_operators_and_functions_are_those_of_karpenter() {
    for (text, expected) in [
        ("20", 20),
        ("((default_enis - 1) * (ips_per_eni - 1)) + 2", 205),
        ("min(250, ((default_enis - 1) * (ips_per_eni - 1)) * 16 + 2)", 250),
        ("11 * max_pods + 255", 2_829),
        ("max(60, vcpus * 30)", 480),
        ("memory_mib / 100", 655),
        ("vcpus % 5", 1),
        ("instance_type == 'm5.4xlarge' ? 1 : 2", 1),
        ("instance_type.startsWith(\"c5\") || vcpus < 4 ? 1 : 2", 2),
        ("instance_type in ['m5.large', 'm5.4xlarge'] && !(vcpus > 64) ? 3 : 4", 3),
        ("int(double(vcpus) * 2.6)", 41),
        ("-vcpus + 4", -12),
        ("vcpus - -1", 17),
        ("vcpus--1", 17),
        ("size('--!!') + 1", 5),
        ("max(3, 7)", 7),
        ("max(3.9, 7.9)", 7),
        ("max(3, 7.9)", 7),
        ("max(7.9, 3)", 7),
        ("min(3, 7)", 3),
        ("min(3.9, 7.9)", 3),
        ("min(3, 7.9)", 3),
        ("min(7.9, 3)", 3),
        ("{'a': 1}['a'] + size([1, 2].map(x, x))", 3),
        ("instance_type.matches('^m5') ? 1 : 2", 1),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn an_invalid_expression_is_refused_with_the_reason() {
    for (text, message) in [
        ("", "neither a quantity nor a CEL expression"),
        ("   ", "neither a quantity nor a CEL expression"),
        ("vcpus *", "neither a quantity nor a CEL expression"),
        ("1Gib", "neither a quantity nor a CEL expression"),
        ("cpus * 10", "cpus is no variable; it may use default_enis, instance_type"),
        ("[1, 2].map(x, x)", "results in a list"),
        ("instance_type.lowerAscii() == 'm5' ? 1 : 2", "the method lowerAscii with 0 arguments is not supported"),
        ("vcpus > 2", "results in a bool"),
        ("instance_type", "results in a string"),
        ("3u", "results in a uint"),
        ("a{}", "a message is not supported"),
        ("--5", "two ! or - in a row is not supported"),
        ("1 - - -5", "two ! or - in a row"),
        ("! !(vcpus > 2) ? 1 : 2", "two ! or - in a row"),
        ("vcpus * 2.5", "the operator has no value for a int and a double; convert an int with double()"),
        ("max(1, 2, 3)", "the function max with 3 arguments is not supported"),
        ("max(1)", "the function max with 1 argument is not supported"),
        ("max(vcpus, instance_type)", "cannot be evaluated for m5.large: expected a number, not a string"),
    ] {
        let error = Expression::parse(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn errors_that_depend_on_the_instance_type_occur_when_it_is_evaluated() {
    for text in [
        "10 / (vcpus - 16)",
        "10 % (vcpus - 16)",
        "1.0 / double(vcpus - 16)",
        "memory_mib * 9223372036854775807",
        "1 / 0",
    ] {
        let error = Expression::parse(text).unwrap().evaluate(&M5_4XLARGE).unwrap_err().to_string();
        assert!(error.contains("cannot be evaluated for m5.4xlarge"), "{text}: {error}");
    }
}

#[test]
fn no_expression_exhausts_the_stack() {
    let nested = |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    for (text, why) in [
        (nested("(", ")", 100), "nested too deeply"),
        (nested("max(1, ", ")", 60), "nested too deeply"),
        (nested("true ? 1 : ", "", 60), "nested too deeply"),
        (nested("- ", "", 60), "two ! or - in a row"),
        ("1+".repeat(600), "too many operators"),
        ("1+".repeat(10_000), "longer than 10 KiB"),
    ] {
        let error = Expression::parse(&text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert_eq!(value(&nested("(", ")", 24)), 1);
    assert_eq!(value(&format!("1{}", "+1".repeat(60))), 61);
}

#[test]
fn expressions_with_the_same_text_are_equal() {
    let of = |text: &str| Expression::parse(text).unwrap();
    assert_eq!(of("vcpus * 2"), of("vcpus * 2"));
    assert_ne!(of("vcpus * 2"), of("vcpus * 3"));
}
