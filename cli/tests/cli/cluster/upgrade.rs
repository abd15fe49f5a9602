//! `nodeless upgrade --check`, of clusters that `nodeless local` serves.

use crate::support::{Ended, Kubectl, World, nodeless, run};

const OWN: &str = env!("CARGO_PKG_VERSION");

fn upgrade(world: &World, arguments: &[&str]) -> Ended {
    run(nodeless().args(arguments).arg("--kubeconfig").arg(&world.kubeconfig))
}

fn check(world: &World) -> Ended {
    upgrade(world, &["upgrade", "--check"])
}

fn label(kubectl: &Kubectl<'_>, kind: &str, name: &str, version: &str) {
    kubectl.run(&["label", kind, name, "--overwrite", &format!("app.kubernetes.io/version{version}")]);
}

#[test]
fn a_cluster_is_compared_with_this_command() {
    let world = World::start(&["--no-controllers"]);
    let before = check(&world);
    assert_eq!((before.code, before.stderr.as_str()), (Some(2), ""), "{}", before.stdout);
    assert!(before.stdout.contains("nodeless is not installed in this cluster"), "{}", before.stdout);
    assert_eq!(upgrade(&world, &["install", "--no-wake"]).code, Some(0));
    let current = check(&world);
    assert_eq!((current.code, current.stderr.as_str()), (Some(0), ""), "{}", current.stdout);
    for line in [
        format!("This command is nodeless {OWN}. The cluster has:"),
        format!("  ClusterRole nodeless:planner: {OWN}"),
        "The cluster has the objects of this version.".to_owned(),
    ] {
        assert!(current.stdout.lines().any(|printed| printed == line), "{line}: {}", current.stdout);
    }
    let definition = "CustomResourceDefinition nodepools.karpenter.sh: another tool manages it and it has every field";
    assert!(current.stdout.contains(definition), "of the local cluster itself: {}", current.stdout);
    assert!(current.stdout.contains("absent, not needed") && current.stdout.contains("newer release is not checked"));
    let Some(kubectl) = Kubectl::new(&world) else { return };
    label(&kubectl, "clusterrole", "nodeless:planner", "=0.0.1");
    let older = check(&world);
    assert_eq!(older.code, Some(2), "{older:?}");
    assert!(older.stdout.contains("ClusterRole nodeless:planner: 0.0.1\n"), "{}", older.stdout);
    assert!(older.stdout.contains("older than this command") && older.stdout.contains("terraform apply"), "{older:?}");
    label(&kubectl, "clusterrole", "nodeless:planner", "=900.1.0");
    let newer = check(&world);
    assert!(newer.code == Some(2) && newer.stdout.contains("Install nodeless 900.1.0 on this machine"), "{newer:?}");
    label(&kubectl, "clusterrole", "nodeless:planner", "-");
    let unstated = check(&world);
    assert!(
        unstated.code == Some(2) && unstated.stdout.contains("nodeless:planner: states no version"),
        "{unstated:?}"
    );
}

#[test]
fn an_upgrade_is_done_with_terraform() {
    let refused = run(nodeless().arg("upgrade"));
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    for part in ["nodeless is upgraded with Terraform", "docs/install/upgrade.md", "`nodeless upgrade --check`"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let wrong = run(nodeless().args(["upgrade", "--no-such-flag"]));
    assert_eq!(wrong.code, Some(1), "2 is a result");
}

#[test]
fn a_cluster_that_cannot_be_read_is_an_error() {
    let missing = run(nodeless().args(["upgrade", "--check", "--kubeconfig", "/nonexistent/config"]));
    assert!(missing.code == Some(1) && missing.stderr.contains("--kubeconfig"), "{missing:?}");
}
