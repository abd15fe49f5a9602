//! `nodeless simulate`, as people call it.
#![allow(clippy::unwrap_used)]

mod support;

use support::{Folder, nodeless, run};

#[test]
fn an_hour_of_everything_going_wrong_holds_and_is_told() {
    let folder = Folder::new();
    let html = folder.path().join("run.html");
    let mut command = nodeless();
    command.args(["simulate", "--scenario", "faults", "--seed", "0", "--hours", "1", "--html"]).arg(&html);
    let told = run(&mut command);
    assert_eq!(told.code, Some(0), "{}{}", told.stdout, told.stderr);
    for part in ["faults, seed 0, 1 hour", "$/hour", "Spent on EC2", "From created to bound", "Pods evicted"] {
        assert!(told.stdout.contains(part), "no {part:?} in {}", told.stdout);
    }
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("<svg") && !page.contains("src=") && !page.contains("href="), "the page needs nothing else");
}

#[test]
fn a_faulty_scenario_is_named_with_its_field() {
    let folder = Folder::new();
    let path = folder.path().join("mine.yaml");
    std::fs::write(&path, "name: mine\nhuors: 3\n").unwrap();
    let faulty = run(nodeless().args(["simulate", "--scenario"]).arg(&path));
    assert_eq!(faulty.code, Some(1));
    assert!(faulty.stderr.contains("huors"), "{}", faulty.stderr);
    let gate = run(nodeless().args(["simulate", "--feature-gates", "NodeRepare=true"]));
    assert_eq!(gate.code, Some(2));
    assert!(gate.stderr.contains("there is no feature gate NodeRepare"), "{}", gate.stderr);
    let missing = run(nodeless().args(["simulate", "--scenario", "no-such-scenario.yaml"]));
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("no-such-scenario.yaml"), "{}", missing.stderr);
}
