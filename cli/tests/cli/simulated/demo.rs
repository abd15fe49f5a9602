//! `nodeless demo`.

use crate::support::http::get;
use crate::support::{Folder, nodeless, run, wait_for};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

#[test]
fn runs_all_steps_and_ends() {
    let ended = run(nodeless().arg("demo"));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let steps = [
        "EC2NodeClass are applied and ready",
        "5 pods (cpu 1, memory 1Gi) pending",
        "created",
        "instance types may be launched",
        "launched",
        "registered and ",
        "ready",
        "All 5 pods run",
        "scaled to 0",
        "empty nodes are disrupted",
        "drained",
        "Instances are terminated, Nodes and NodeClaims are deleted",
        "Cost of EC2",
    ];
    let mut rest = ended.stdout.as_str();
    for step in steps {
        let at = rest.find(step).unwrap_or_else(|| panic!("{step:?} is missing or too early in\n{}", ended.stdout));
        rest = &rest[at..];
    }
    assert!(!ended.stdout.contains('\u{1b}'), "no colours without a terminal");
    assert!(!ended.stdout.contains("Cost of EC2                            $0.0000,"), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
}

#[cfg(unix)]
#[test]
fn an_interactive_demo_runs_until_it_is_ended() {
    let folder = Folder::new();
    let mut command = nodeless();
    command.args(["demo", "--interactive", "--speed", "20"]).current_dir(folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The view comes first: it shows the steps as they happen.
    if cfg!(feature = "kubernetes") {
        let shown = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("http://")).unwrap();
        let address = shown.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        let page = get(address, "/");
        assert!(page.status == 200 && page.body.contains("<title>nodeless view</title>"), "{}", page.body);
        let asked = lines.by_ref().map(|line| line.unwrap()).find(|line| !line.is_empty()).unwrap();
        assert_eq!(asked, "Press Enter to begin, or Ctrl-C to end.");
        let nodes = || get(address, "/api/picture").json()["nodes"].as_array().map_or(0, Vec::len);
        assert_eq!(nodes(), 0, "nothing happens before Enter");
        stdin.write_all(b"\n").unwrap();
        wait_for("the nodes of the demo in the view", || {
            get(address, "/api/picture").json()["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty())
        });
    }
    drop(stdin);
    let ready = lines.by_ref().map(|line| line.unwrap()).find(|line| line.contains("runs until you press Ctrl-C"));
    let kubeconfig = folder.path().join("nodeless.kubeconfig");
    assert!(ready.is_some() && kubeconfig.is_file());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let summary: String = lines.map(|line| line.unwrap()).collect();
    assert!(summary.contains("0 nodes, 0 pods and 0 instances"), "{summary}");
    assert!(child.wait().unwrap().success() && !kubeconfig.exists());
}

#[test]
fn an_invalid_speed_is_refused() {
    for speed in ["0", "-1", "fast", "1e9", "NaN"] {
        let refused = run(nodeless().args(["demo", &format!("--speed={speed}")]));
        assert_eq!(refused.code, Some(2), "{speed}");
        assert!(refused.stderr.contains("a number from 0.1 to 1000"), "{}", refused.stderr);
    }
}
