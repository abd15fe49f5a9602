//! Expressions: the cases of `k8s.io/dynamic-resource-allocation/cel`, and what this evaluator does differently.

use crate::support::DRIVER;
use nodeless_devices::Device;
use nodeless_devices::selector::{CompileError, EvaluationError, Selector};
use serde_json::json;

fn device() -> Device {
    serde_json::from_value(json!({
        "name": "a",
        "attributes": {
            "model": {"string": "t4"},
            "cores": {"int": 4},
            "ready": {"bool": true},
            "firmware": {"version": "1.2.3"},
            "list": {"strings": ["a"]},
            "k8s.io/numa": {"int": 0},
        },
        "capacity": {"memory": {"value": "16Gi"}, "k8s.io/slots": {"value": "7"}},
    }))
    .unwrap()
}

fn evaluated(expression: &str) -> Result<bool, EvaluationError> {
    Selector::compile(expression).unwrap().matches(DRIVER, &device())
}

/// Expressions with the value that Kubernetes gives them for the device.
const VALUES: &[(&str, bool)] = &[
    ("true", true),
    ("false", false),
    ("device.driver == 'gpu.example.com'", true),
    ("device.driver == ''", false),
    ("device.attributes['gpu.example.com'].ready", true),
    ("device.attributes['gpu.example.com']['ready']", true),
    ("device.attributes['k8s.io'].numa == 0", true),
    ("cel.bind(gpu, device.attributes['gpu.example.com'], gpu.ready && gpu.cores > 3)", true),
    ("device.attributes['gpu.example.com'].cores > 4", false),
    ("device.attributes['gpu.example.com'].cores >= 4 && device.attributes['gpu.example.com'].cores < 5", true),
    ("device.attributes['gpu.example.com'].model == 't4'", true),
    ("device.attributes['gpu.example.com'].model != 't4'", false),
    ("device.attributes['gpu.example.com'].model == 4", false),
    ("device.attributes['gpu.example.com'].model in ['l4', 't4']", true),
    (
        "device.attributes['gpu.example.com'].model.startsWith('t') && device.attributes['gpu.example.com'].model.endsWith('4')",
        true,
    ),
    ("device.attributes['gpu.example.com'].model.contains('l')", false),
    ("device.attributes['gpu.example.com'].model.matches('^[lt]4$')", true),
    ("device.attributes['gpu.example.com'].model.lowerAscii() == 't4'", true),
    ("device.attributes['gpu.example.com'].model.size() == 2", true),
    ("size(device.attributes['k8s.io']) == 1", true),
    ("device.attributes['gpu.example.com'].firmware.isGreaterThan(semver('0.0.1'))", true),
    ("device.attributes['gpu.example.com'].firmware.isLessThan(semver('1.2.3'))", false),
    ("device.attributes['gpu.example.com'].firmware.compareTo(semver('1.2.3')) == 0", true),
    (
        "device.attributes['gpu.example.com'].firmware.major() == 1 && device.attributes['gpu.example.com'].firmware.minor() == 2",
        true,
    ),
    ("device.attributes['gpu.example.com'].firmware == semver('1.2.3')", true),
    ("semver('2.0.0').patch() == 0 && isSemver('1.0.0') && !isSemver('v1')", true),
    ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('8Gi'))", true),
    ("device.capacity['gpu.example.com'].memory.compareTo(quantity('17179869184')) == 0", true),
    ("device.capacity['gpu.example.com'].memory == quantity('16384Mi')", true),
    ("device.capacity['gpu.example.com'].memory.isLessThan(quantity('16Gi'))", false),
    ("device.capacity['k8s.io'].slots.asInteger() == 7", true),
    ("device.capacity['k8s.io'].slots.add(quantity('1')).sub(2).asInteger() == 6", true),
    (
        "quantity('-1').sign() == -1 && quantity('500m').isInteger() == false && isQuantity('1Gi') && !isQuantity('x')",
        true,
    ),
    ("quantity('500m').asApproximateFloat() == 0.5", true),
    ("'no-such-domain' in device.attributes", false),
    ("'gpu.example.com' in device.attributes", true),
    ("'k8s.io' in device.capacity", true),
    ("'model' in device.attributes['gpu.example.com']", true),
    ("'model' in device.attributes['no-such-domain']", false),
    ("has(device.attributes['gpu.example.com'].model)", true),
    ("has(device.attributes['gpu.example.com'].other)", false),
    ("has(device.driver)", true),
    ("device.attributes.exists(domain, domain == 'k8s.io')", true),
    ("device.attributes['gpu.example.com'].all(name, name != 'other')", true),
    ("device.attributes['gpu.example.com'].exists_one(name, name == 'model')", true),
    ("['t4', 'l4'].filter(model, model == device.attributes['gpu.example.com'].model).size() == 1", true),
    ("[1, 2].map(x, x * 2) == [2, 4]", true),
    ("['l4', 't4'].exists(x, device.attributes['gpu.example.com'][x] == 1 || x == 't4')", true),
    ("device.attributes['gpu.example.com'].other == 1 || true", true),
    ("false && device.attributes['gpu.example.com'].other == 1", false),
    ("device.attributes['gpu.example.com'].other == 1 && false", false),
    ("(device.driver == 'x' ? 1 : 2) == 2", true),
    ("1 + 2 * 3 == 7 && 7 / 2 == 3 && 7 % 2 == 1 && -1 < 0 && 1.5 > 1", true),
    ("'a' + 'b' == 'ab' && [1] + [2] == [1, 2] && {'a': 1}.a == 1", true),
    ("int('4') == device.attributes['gpu.example.com'].cores && string(4) == '4' && double(1) == 1.0", true),
    ("device.allowMultipleAllocations", false),
];

#[test]
fn expressions_have_the_value_that_kubernetes_gives_them() {
    for (expression, expected) in VALUES {
        assert_eq!(evaluated(expression), Ok(*expected), "{expression}");
    }
}

#[test]
fn expressions_without_a_value_fail() {
    let missing = |what: &str| EvaluationError::Missing { what: what.to_owned() };
    let of_type = |message: &str| EvaluationError::Type(message.to_owned());
    for (expression, expected) in [
        (
            "device.attributes['no-such-domain'].other.isGreaterThan(quantity('0'))",
            missing("attribute no-such-domain/other"),
        ),
        ("device.attributes['no-such-domain']['other'] == 1", missing("attribute no-such-domain/other")),
        ("device.capacity['gpu.example.com'].other == quantity('0')", missing("capacity gpu.example.com/other")),
        ("device.other", missing("field other")),
        ("device.attributes['gpu.example.com'].model", of_type("expected a bool, not a string")),
        (
            "device.attributes['gpu.example.com'].list == 1",
            of_type("attribute gpu.example.com/list has a type that is not supported"),
        ),
        ("device.attributes['gpu.example.com'].cores.exists(x, x > 0)", of_type("expected a list or map, not a int")),
        (
            "device.attributes['gpu.example.com'].cores.isGreaterThan(quantity('0'))",
            of_type("expected a quantity or semver, not a int"),
        ),
        ("device.attributes['gpu.example.com'].cores < 'x'", of_type("int and string have no order; use compareTo")),
        ("1 / 0 == 1", EvaluationError::Value("a number is divided by zero, or the result is out of range")),
        (
            "9223372036854775807 + 1 == 0",
            EvaluationError::Value("a number is divided by zero, or the result is out of range"),
        ),
        ("quantity('500m').asInteger() == 0", of_type("the quantity is not a whole number")),
        ("[1][1] == 1", EvaluationError::Value("the list has fewer elements")),
    ] {
        assert_eq!(evaluated(expression), Err(expected), "{expression}");
    }
    for expression in
        ["quantity('x') == quantity('1')", "semver('v1') == semver('1.0.0')", "'a'.matches('[')", "int('x') == 1"]
    {
        assert!(matches!(evaluated(expression), Err(EvaluationError::Type(_))), "{expression}");
    }
}

#[test]
fn expressions_that_are_not_valid_are_not_compiled() {
    for (expression, is_syntax) in [
        ("?!", true),
        ("", true),
        ("device.driver ==", true),
        ("other == 1", true),
        ("cel.bind(1, 2, 3)", true),
        ("device.attributes['x'].y.includes('z')", false),
        ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", false),
        ("device.attributes[?'x'].hasValue()", true),
        ("b'x' == b'x'", false),
        ("Device{name: 'x'} == device", false),
        ("device.driver.size(1) == 1", false),
        ("!!true", false),
        ("- -1 == 1", false),
    ] {
        let error = Selector::compile(expression).unwrap_err();
        assert_eq!(matches!(error, CompileError::Syntax(_)), is_syntax, "{expression}: {error}");
    }
}

#[test]
fn the_cost_of_an_expression_is_bounded() {
    let long = format!("device.driver == '{}'", "x".repeat(11 * 1024));
    let brackets = format!("{}true{}", "(".repeat(1000), ")".repeat(1000));
    let lists = format!("{}1{} == 1", "[".repeat(1000), "]".repeat(1000));
    let sum = format!("{} == 1", vec!["1"; 5000].join("+"));
    let chain = format!("device{} == 1", ".a".repeat(5000));
    for expression in [long, brackets, lists, sum, chain] {
        let error = Selector::compile(&expression).unwrap_err();
        assert!(matches!(error, CompileError::TooComplex(_)), "{error}");
    }
    let numbers = vec!["1"; 100].join(",");
    let costly = format!("[{numbers}].all(a, [{numbers}].all(b, [{numbers}].all(c, a == b)))");
    assert_eq!(evaluated(&costly), Err(EvaluationError::TooCostly { limit: 20_000 }));
    let doubling = (0..20).rev().fold("size(x20) > 0".to_owned(), |body, index| {
        format!("cel.bind(x{}, x{index} + x{index}, {body})", index + 1)
    });
    let doubling = format!("cel.bind(x0, 'xxxxxxxxxxxxxxxx', {doubling})");
    assert_eq!(evaluated(&doubling), Err(EvaluationError::TooCostly { limit: 20_000 }));
}

/// As deep and as long as expressions may be: neither the parser nor the evaluation may use up the stack of a thread.
#[test]
fn the_largest_expressions_are_evaluated() {
    for expression in [
        format!("{}true{}", "(".repeat(24), ")".repeat(24)),
        format!("{} == 60", vec!["1"; 60].join("+")),
        format!("{}true{}", "!(".repeat(22), ")".repeat(22)),
        vec!["true"; 100].join(" && "),
    ] {
        assert_eq!(evaluated(&expression), Ok(true), "{expression}");
    }
    // What is parsed, but nested too deeply.
    for expression in [format!("{} == 1", vec!["1"; 390].join("+")), format!("device{} == 1", ".a".repeat(390))] {
        assert!(matches!(Selector::compile(&expression), Err(CompileError::TooComplex(_))), "{expression}");
    }
}

#[test]
fn the_attributes_that_an_expression_names_are_known() {
    use nodeless_devices::selector::Selector;
    let reads = |expression: &str| -> Vec<String> {
        Selector::compile(expression).unwrap().reads().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        reads(
            "device.driver == 'a' && device.attributes['a.com'].model.startsWith('t') || 'b' in device.attributes['a.com']"
        ),
        ["attribute a.com/b", "attribute a.com/model"]
    );
    assert_eq!(
        reads("has(device.capacity.a.memory) && device.capacity['a']['memory'].compareTo(quantity('1Gi')) > 0"),
        ["capacity a/memory"]
    );
    assert_eq!(
        reads("cel.bind(a, device.attributes['a'], a.x == 1) && ['x'].exists(n, device.attributes['a'].y == n)"),
        ["attribute a/y"]
    );
}

/// Texts and comments that a count of brackets and operators may take for something else.
#[test]
fn no_text_hides_how_deep_an_expression_is() {
    let (open, close, sum) = ("(".repeat(1000), ")".repeat(1000), "1+".repeat(4000));
    for text in ["r'\\' == 'a'", "'''a'b''' == 'a'", "// don't\ntrue"] {
        for deep in [format!("{open}true{close}"), format!("{sum}1 == 1")] {
            let compiled = Selector::compile(&format!("{text} || {deep}"));
            assert!(compiled.is_err(), "{text}");
        }
    }
}
