//! `nodeless demo`, from the outside.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use support::{Folder, nodeless, run};

#[test]
fn runs_all_steps_and_ends() {
    let told = run(nodeless().arg("demo"));
    assert_eq!(told.code, Some(0), "{}{}", told.stdout, told.stderr);
    let chapters = [
        "EC2NodeClass are applied and ready",
        "5 pods of 1 CPU and 1 GiB wait",
        "made",
        "instance types may be launched",
        "launched",
        "joined and ",
        "ready",
        "All 5 pods run",
        "scaled to 0",
        "empty nodes are to go",
        "drained",
        "Instances are terminated, Nodes and NodeClaims are gone",
        "Spent on EC2",
    ];
    let mut rest = told.stdout.as_str();
    for chapter in chapters {
        let at =
            rest.find(chapter).unwrap_or_else(|| panic!("{chapter:?} is missing or too early in\n{}", told.stdout));
        rest = &rest[at..];
    }
    assert!(!told.stdout.contains('\u{1b}'), "no colours where there is no terminal");
    assert!(!told.stdout.contains("Spent on EC2                           $0.0000,"), "{}", told.stdout);
    assert_eq!(told.stderr, "");
}

#[cfg(unix)]
#[test]
fn stays_open_until_it_is_ended() {
    let folder = Folder::new();
    let mut command = nodeless();
    command.args(["demo", "--interactive", "--speed", "200"]).current_dir(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("goes on until Ctrl-C"));
    let kubeconfig = folder.path().join("nodeless.kubeconfig");
    assert!(told.is_some() && kubeconfig.is_file());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let farewell: String = lines.map(|line| line.unwrap()).collect();
    assert!(farewell.contains("0 nodes, 0 pods and 0 instances"), "{farewell}");
    assert!(child.wait().unwrap().success() && !kubeconfig.exists());
}

#[test]
fn a_speed_that_makes_no_sense_is_refused() {
    for speed in ["0", "-1", "fast", "1e9", "NaN"] {
        let refused = run(nodeless().args(["demo", &format!("--speed={speed}")]));
        assert_eq!(refused.code, Some(2), "{speed}");
        assert!(refused.stderr.contains("a number from 0.1 to 1000"), "{}", refused.stderr);
    }
}
