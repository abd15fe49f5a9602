//! The command of the documentation that exports a cluster.

use crate::support::{Folder, Kubectl, World, nodeless, run};
use nodeless_tests::workspace;
use std::fs;
use std::process::Command;

/// The lines of a page that export a cluster.
fn exports(page: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace().join("docs").join(page)).unwrap();
    let lines =
        text.lines().filter(|line| line.trim_start().starts_with("kubectl") && line.ends_with("> cluster.yaml"));
    lines.map(str::to_owned).collect()
}

#[test]
fn every_page_has_the_same_command() {
    let one = exports("plan.md");
    assert_eq!(one.len(), 1, "{one:?}");
    for page in ["start.md", "migrate/README.md"] {
        assert_eq!(exports(page), one, "{page}");
    }
    let help = run(nodeless().args(["plan", "--help"]));
    let on_one_line = help.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(on_one_line.contains(&one[0]), "{}", help.stdout);
}

/// It asks kubectl only for kinds that the server has.
#[test]
fn a_cluster_without_karpenter_is_exported_too() {
    let world = World::start(&[]);
    let Some(kubectl) = Kubectl::new(&world) else { return };
    let export = |expected: &[&str]| {
        let folder = Folder::new();
        let mut command = Command::new("sh");
        command.args(["-c", &exports("plan.md")[0]]).current_dir(folder.path()).env("KUBECONFIG", &world.kubeconfig);
        let ended = run(&mut command);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
        let exported = fs::read_to_string(folder.path().join("cluster.yaml")).unwrap();
        for kind in expected {
            assert!(exported.contains(&format!("kind: {kind}\n")), "{kind} is missing");
        }
        let planned = run(nodeless().args(["plan", "--cluster"]).arg(folder.path().join("cluster.yaml")));
        assert_eq!(planned.code, Some(0), "{planned:?}");
        exported
    };
    kubectl.apply(&crate::support::example_node_pool("local"), &[]);
    export(&["NodePool", "EC2NodeClass", "Namespace"]);
    kubectl.run(&["delete", "nodepools,ec2nodeclasses", "--all", "--wait=false"]);
    let definitions = ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh"];
    kubectl.run(&[&["delete", "crd", "--wait=false"], &definitions[..]].concat());
    assert!(!export(&["Namespace"]).contains("kind: NodePool\n"));
}
