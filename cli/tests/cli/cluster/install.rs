//! `nodeless install` and `uninstall`, into a cluster that `nodeless local` serves.

use crate::support::{Ended, Kubectl, World, nodeless, run};

fn installed(world: &World, arguments: &[&str]) -> Ended {
    let mut command = nodeless();
    command.args(arguments).arg("--kubeconfig").arg(&world.kubeconfig);
    run(&mut command)
}

#[test]
fn install_and_uninstall_are_idempotent() {
    let world = World::start(&["--no-controllers"]);
    let tried = installed(&world, &["install", "--wake-url", "https://example.org/secret", "--dry-run"]);
    assert_eq!(tried.code, Some(0), "{}{}", tried.stdout, tried.stderr);
    assert!(tried.stderr.contains("note: context local; nothing is changed"), "{}", tried.stderr);
    let first = installed(&world, &["install", "--wake-url", "https://example.org/secret"]);
    assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
    assert!(first.stdout.contains("created"), "{}", first.stdout);
    assert_eq!(tried.stdout, first.stdout, "the dry run created nothing, and stated what is created");
    let again = installed(&world, &["install", "--wake-url", "https://example.org/secret"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(!again.stdout.contains("created") && !again.stdout.contains("updated"), "{}", again.stdout);
    if let Some(kubectl) = Kubectl::new(&world) {
        let webhook = kubectl.run(&["get", "validatingwebhookconfigurations", "--output", "yaml"]);
        assert!(webhook.contains("https://example.org/secret"), "{webhook}");
    }
    let removed = installed(&world, &["uninstall"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    if let Some(kubectl) = Kubectl::new(&world) {
        assert!(kubectl.names("validatingwebhookconfigurations").is_empty());
        assert!(kubectl.names("crds").contains(&"nodepools.karpenter.sh".to_owned()));
    }
}

#[test]
fn an_unreachable_api_server_is_reported() {
    let mut world = World::start(&["--no-controllers"]);
    let kubeconfig = std::fs::read_to_string(&world.kubeconfig).unwrap();
    world.end_by("INT");
    std::fs::write(&world.kubeconfig, kubeconfig).unwrap();
    let refused = installed(&world, &["install"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("\nerror: Kubernetes "), "{}", refused.stderr);
    assert!(refused.stderr.contains("could not be reached"), "{}", refused.stderr);
    assert!(refused.stderr.contains("kubectl cluster-info"), "{}", refused.stderr);
}

#[test]
fn a_missing_kubeconfig_is_reported() {
    let refused = run(nodeless().args(["install", "--kubeconfig", "/nonexistent/config"]));
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--kubeconfig"), "{}", refused.stderr);
}
