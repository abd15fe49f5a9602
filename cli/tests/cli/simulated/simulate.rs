//! `nodeless simulate`.

use crate::support::{Folder, nodeless, run};

#[test]
fn an_hour_of_faults_violates_no_invariant() {
    let ended = run(nodeless().args(["simulate", "faults", "--seed", "0", "--hours", "1"]));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    for part in ["faults, seed 0, 1 hour", "$/hour", "Cost of EC2", "Time from creation to binding", "Pods evicted"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {}", ended.stdout);
    }
}

#[test]
fn an_error_names_the_invalid_field_of_a_scenario() {
    let folder = Folder::new();
    let path = folder.path().join("mine.yaml");
    std::fs::write(&path, "name: mine\nhuors: 3\n").unwrap();
    let invalid = run(nodeless().args(["simulate", "--scenario"]).arg(&path));
    assert_eq!(invalid.code, Some(1));
    assert!(invalid.stderr.contains("huors"), "{}", invalid.stderr);
    for (templated, line) in [
        ("name: {{ .Values.name }}\n", 1),
        ("name: mine\nobjects:\n  - { kind: Pod, metadata: { name: '{{ .a }}' } }\n", 3),
    ] {
        std::fs::write(&path, templated).unwrap();
        let refused = run(nodeless().args(["simulate", "--scenario"]).arg(&path));
        assert_eq!(refused.code, Some(1));
        let expected = format!("line {line}: the manifest has templating left in it ({{{{");
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    }
    let twice = run(nodeless().args(["simulate", "faults", "--scenario", "day"]));
    assert!(twice.code == Some(2) && twice.stderr.contains("cannot be used with"), "{twice:?}");
    let gate = run(nodeless().args(["simulate", "--feature-gates", "NodeRepare=true"]));
    assert_eq!(gate.code, Some(2));
    assert!(gate.stderr.contains("there is no feature gate NodeRepare"), "{}", gate.stderr);
    let missing = run(nodeless().args(["simulate", "--scenario", "no-such-scenario.yaml"]));
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("no-such-scenario.yaml"), "{}", missing.stderr);
}
