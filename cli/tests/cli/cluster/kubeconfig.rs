//! Kubeconfigs that cannot be used: each is reported with what is wrong and what to do, without a connection.

use crate::support::{Ended, Folder, nodeless, run};
use std::path::{Path, PathBuf};

/// A kubeconfig with the contexts `blue` and `green`, whose user runs a command to get a token.
fn kubeconfig(folder: &Path, current: &str, exec: &str) -> PathBuf {
    let path = folder.join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: \"{current}\"\n\
         clusters:\n- name: c\n  cluster: {{ server: \"http://127.0.0.1:1\" }}\n\
         contexts:\n- name: blue\n  context: {{ cluster: c, user: u }}\n- name: green\n  context: {{ cluster: c, user: u }}\n\
         users:\n- name: u\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      interactiveMode: Never\n{exec}\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn planned(kubeconfig: &Path, more: &[&str]) -> Ended {
    let ended = run(nodeless().args(["plan", "--kubeconfig"]).arg(kubeconfig).args(more));
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout, "");
    ended
}

#[test]
fn no_kubeconfig() {
    let folder = Folder::new();
    let path = folder.path().join("none");
    let expected = format!("error: no kubeconfig at {}; ", path.display());
    let ended = planned(&path, &[]);
    assert!(
        ended.stderr.starts_with(&expected) && ended.stderr.contains("or plan for files with --cluster FILE"),
        "{ended:?}"
    );
    let home = run(nodeless().arg("plan").env("HOME", folder.path()));
    assert!(home.code == Some(1) && home.stderr.contains(".kube/config"), "{home:?}");
    let variable = run(nodeless().arg("plan").env("KUBECONFIG", &path));
    assert!(variable.code == Some(1) && variable.stderr.starts_with(&expected), "{variable:?}");
}

#[test]
fn a_context_that_does_not_exist() {
    let folder = Folder::new();
    let path = kubeconfig(folder.path(), "blue", "      command: \"true\"");
    let ended = planned(&path, &["--context", "red"]);
    assert_eq!(ended.stderr, "error: the kubeconfig has no context \"red\"; it has blue, green\n");
    let path = kubeconfig(folder.path(), "", "      command: \"true\"");
    let ended = planned(&path, &[]);
    assert!(ended.stderr.contains("no current context") && ended.stderr.contains("blue, green"), "{}", ended.stderr);
    std::fs::write(&path, "apiVersion: v1\nkind: Config\n").unwrap();
    let expected = "error: the kubeconfig has no context; specify another with --kubeconfig or KUBECONFIG\n";
    assert_eq!(planned(&path, &[]).stderr, expected);
}

#[cfg(unix)]
#[test]
fn a_command_for_tokens_that_fails() {
    let folder = Folder::new();
    let exec = "      command: sh\n      args: [\"-c\", \"echo the SSO session has expired >&2; exit 255\"]";
    let ended = planned(&kubeconfig(folder.path(), "blue", exec), &[]);
    let (error, advice) = ended.stderr.split_once("exit status: 255: the SSO session has expired; ").unwrap();
    assert!(error.starts_with("error: `sh -c "), "{error}");
    assert!(advice.contains("log in again") && !ended.stderr.contains("Output {"), "{}", ended.stderr);
    let missing = planned(&kubeconfig(folder.path(), "blue", "      command: no-such-command-for-tokens"), &[]);
    let expected = "`no-such-command-for-tokens`, which the kubeconfig runs to get a token, cannot be started";
    assert!(missing.stderr.contains(expected), "{}", missing.stderr);
}

#[test]
fn a_file_that_is_no_kubeconfig() {
    let folder = Folder::new();
    let path = folder.path().join("config");
    std::fs::write(&path, "{ this is: [ no yaml").unwrap();
    let ended = planned(&path, &[]);
    assert!(ended.stderr.starts_with("error: the kubeconfig ") && ended.stderr.contains("config cannot be read: "));
}
