//! Readers that close a pipe early, files that cannot be written, and Ctrl-C.

use crate::support::{Folder, nodeless, run};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

/// The first line of standard output; then its reader closes the pipe.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

fn piped(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The exit code, and standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

#[test]
fn a_closed_pipe_is_no_error() {
    for arguments in [&["crds"][..], &["catalog", "show"], &["demo"]] {
        let mut child = piped(nodeless().args(arguments));
        assert!(!first_line(&mut child).is_empty());
        assert_eq!(end(child), (Some(0), String::new()), "{arguments:?}");
    }
}

#[test]
fn a_closed_standard_error_is_no_error() {
    let folder = Folder::new();
    let path = folder.path().join("service.yaml");
    std::fs::write(&path, "apiVersion: v1\nkind: Namespace\nmetadata: { name: a }\n---\napiVersion: v1\nkind: Service\nmetadata: { name: b }\n").unwrap();
    let mut child = piped(nodeless().args(["plan", "--cluster"]).arg(&path));
    drop(child.stderr.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_local_cluster_whose_output_nobody_reads_removes_its_kubeconfig() {
    let folder = Folder::new();
    let mut child = piped(nodeless().arg("local").current_dir(folder.path()));
    assert!(first_line(&mut child).starts_with("Cluster "));
    let kubeconfig = folder.path().join("nodeless.kubeconfig");
    assert!(kubeconfig.is_file());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let (code, stderr) = end(child);
    assert!(code == Some(0) && !stderr.contains("panicked") && !kubeconfig.exists(), "{code:?} {stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    for arguments in [&["crds"][..], &["demo"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = run(nodeless().args(arguments).stdout(full));
        assert!(ended.code == Some(1) && ended.stderr.contains("standard output cannot be written"), "{ended:?}");
    }
}

#[test]
fn a_path_that_cannot_be_written_is_reported_before_the_simulation() {
    let ended = run(nodeless().args(["simulate", "--hours", "8000", "--html", "/no/such/folder/page.html"]));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("/no/such/folder/page.html cannot be written"), "{}", ended.stderr);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_simulation_with_what_it_did_until_then() {
    let folder = Folder::new();
    let html = folder.path().join("page.html");
    let child = piped(nodeless().args(["simulate", "--verbose", "--hours", "8000", "--html"]).arg(&html));
    let mut child = child;
    // The log shows that the run has begun.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    assert!(log.read_line(&mut String::new()).unwrap() > 0);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let drained = std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let ended = child.wait_with_output().unwrap();
    drained.join().unwrap().unwrap();
    let stdout = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("Interrupted at ") && stdout.contains("Cost of EC2"), "{stdout}");
    assert!(std::fs::read_to_string(html).unwrap().contains("<svg"));
}
