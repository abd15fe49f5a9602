//! The Markdown for a comment on a pull request.

use super::{deployment, ended, pool, set, written};
use crate::support::{Folder, nodeless, run};
use serde_json::{Value, json};
use std::fs;

/// The most characters of a comment on GitHub.
const COMMENT: usize = 65_536;

fn markdown(code: i32, sets: [&[Value]; 2]) -> String {
    let ended = ended(&Folder::new(), sets, &["-o", "markdown"]);
    assert_eq!(ended.code, Some(code), "{ended:?}");
    ended.stdout
}

/// The Markdown of a change with every part.
#[test]
fn a_comment_has_every_part_of_the_comparison() {
    let mut later = deployment("later", 6, "1");
    later["spec"]["template"]["spec"]["nodeSelector"] = json!({ "team": "a" });
    let mut now = later.clone();
    now["spec"]["template"]["spec"].as_object_mut().unwrap().remove("nodeSelector");
    let base = set(&[deployment("web", 2, "3"), later, deployment("old", 1, "3")]);
    let head = set(&[deployment("web", 5, "3"), now, deployment("huge", 1, "5000")]);
    let expected = fs::read_to_string(nodeless_tests::workspace().join("cli/tests/cli/diff/comment.md")).unwrap();
    assert_eq!(markdown(2, [&base, &head]), expected);
}

#[test]
fn names_are_in_code() {
    let hostile = "web`|<img src=x>\n# @team [a](b) *c* https://example.com";
    let head = set(&[deployment(hostile, 2, "3"), pool("a|b\\", &[]), deployment("huge", 1, "5000")]);
    let shown = markdown(2, [&set(&[]), &head]);
    assert!(
        shown.contains(
            "- added ``Deployment default/web`|<img src=x> # @team [a](b) *c* https://example.com``: 2 pods\n"
        ),
        "{shown}"
    );
    assert!(!shown.lines().any(|line| line.starts_with("# ")), "{shown}");
    let outside: String = shown.split("``").step_by(2).flat_map(|part| part.split('`').step_by(2)).collect();
    for sign in ["<img", "@team", "](b)", "https:"] {
        assert!(!outside.contains(sign), "{sign}: {outside}");
    }
    for line in shown.lines().filter(|line| line.starts_with('|')) {
        assert_eq!(line.matches('|').count(), 9, "{line}");
    }
}

#[test]
fn a_comment_of_thousands_of_objects_is_not_too_long() {
    let long = |index: usize, letter: &str| format!("{index}-{}", letter.repeat(240));
    let (mut base, mut head) = (set(&[]), set(&[]));
    for index in 0..600 {
        let mut web = deployment(&long(index, "\u{1f600}"), 1, "500m");
        web["spec"]["template"]["metadata"]["labels"] = json!({ "app": index.to_string() });
        if index % 3 == 0 {
            base.push(web.clone());
            web["spec"]["replicas"] = json!(2);
        }
        if index % 7 == 0 {
            web["spec"]["template"]["spec"]["nodeSelector"] = json!({ long(index, "k"): long(index, "v") });
        }
        head.push(web);
    }
    for index in 0..60 {
        head.push(pool(
            &long(index, "p"),
            &[json!({ "key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"] })],
        ));
    }
    let shown = markdown(2, [&base, &head]);
    assert!(shown.chars().count() < COMMENT - 1_000 && shown.len() < COMMENT, "{} characters", shown.chars().count());
    assert!(shown.contains(" more objects left out; `-o json` has all"), "{shown}");
    assert!(shown.contains(" more groups left out; `-o json` has all"), "{shown}");
    let folder = Folder::new();
    let (base, head) = (written(&folder, "base", &base), written(&folder, "head", &head));
    let all = run(nodeless().args(["plan", "-o", "json", "--diff"]).args([base, head]));
    let report: Value = serde_json::from_str(&all.stdout).unwrap();
    assert_eq!(report["objects"]["changed"].as_array().unwrap().len(), 200);
}
