use super::{parse, plain, write};

fn same(text: &str) {
    let tree = parse(text).unwrap().unwrap();
    assert_eq!(write(&tree), text);
    assert_eq!(parse(&write(&plain(&tree))).unwrap().unwrap().to_value(), tree.to_value());
}

#[test]
fn what_is_written_is_what_was_read() {
    same(
        "# head\n\n# of the object\napiVersion: v1 # right\nspec: # of spec\n  # about a\n  a: \"q\" # ra\n\n  seq:\n    # item c\n    - k: 1 # one\n      l: two\n    - [a, { b: c }] # fl\n    # tail of seq\n  # tail of spec\nu: | # lit\n  line1\n    line2\n\n  line 3\nempty:\nnone: {}\n# end\n",
    );
    same("items:\n  - \"x\"\n  - 'y'\n  # above b\n  - b: |-\n      text\n  # and a list\n  -\n    - 1\n    - ~\n");
}

#[test]
fn comments_stay_with_what_they_are_about() {
    let text = "spec:\n- a: 1\n  # for b\n  b: 2\n  # after b\n# above c\n- c: 3\n# end of spec\nother: 1\n";
    let written = write(&parse(text).unwrap().unwrap());
    assert_eq!(
        written,
        "spec:\n  - a: 1\n    # for b\n    b: 2\n    # after b\n  # above c\n  - c: 3\n# end of spec\nother: 1\n"
    );
}

#[test]
fn aliases_and_merge_keys_are_replaced() {
    let text = "a: &a # x\n  b: 1 # one\nc: *a\nd:\n  <<: *a\n  e: 2\n";
    let tree = parse(text).unwrap().unwrap();
    assert_eq!(tree.to_value(), serde_json::json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"e": 2, "b": 1}}));
    assert_eq!(write(&tree), "a: # x\n  b: 1 # one\nc:\n  b: 1\nd:\n  e: 2\n  b: 1\n");
}

#[test]
fn json_becomes_block_style() {
    let tree = parse(r#"{"a": {"b": "1", "c": ["x y", true], "d": "l1\nl2\n"}, "e": "yes"}"#).unwrap().unwrap();
    assert_eq!(
        write(&plain(&tree)),
        "a:\n  b: \"1\"\n  c:\n    - \"x y\"\n    - true\n  d: |\n    l1\n    l2\ne: \"yes\"\n"
    );
}

#[test]
fn what_is_no_object_is_an_error_with_its_line() {
    for (text, line) in [("a: 1\nb: [\n", 2), ("a: 1\n? [x]\n: 2\n", 2), ("a: 1\na: 2\n", 2), ("a: !x 1\n", 1)] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error:?}");
    }
    assert_eq!(parse("# only a comment\n"), Ok(None));
}
