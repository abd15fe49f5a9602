//! Readers that close a pipe early, files that cannot be written, terminals, and Ctrl-C.

use crate::support::objects::Objects;
use crate::support::{Folder, in_a_terminal, nodeless, run};
use serde_json::json;
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
fn a_plan_that_fails_leaves_the_earlier_page() {
    let folder = Folder::new();
    let page = folder.path().join("page.html");
    std::fs::write(&page, "earlier").unwrap();
    let ended = run(nodeless().args(["plan", "--what-if", "--cluster", "/no/such/cluster.yaml", "--html"]).arg(&page));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "earlier");
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["page.html"]);
}

#[cfg(feature = "aws")]
#[test]
fn a_catalog_that_cannot_be_written_is_reported_before_aws_is_called() {
    let mut command = nodeless();
    // A call would fail with another error.
    command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", nodeless_tests::free_port()));
    command.env("AWS_REGION", "us-east-1").env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    let ended = run(command.args(["catalog", "export", "--write", "/no/such/folder/catalog.json"]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("/no/such/folder/catalog.json cannot be written"), "{}", ended.stderr);
}

/// The plan of a cluster in whose text most lines are long.
fn long_lines(folder: &Folder) -> String {
    let mut objects = Objects::new();
    for number in 0..9 {
        objects.pod(&format!("a-pod-with-a-long-name-{number}"), None, "1500m");
        objects.pod(&format!("another-pod-with-a-long-name-{number}"), None, "900");
    }
    let path = folder.path().join("cluster.json");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.0 });
    std::fs::write(&path, list.to_string()).unwrap();
    format!("plan --cluster {}", path.display())
}

#[test]
fn text_and_help_fit_a_narrow_terminal() {
    let folder = Folder::new();
    for command in ["--help", "plan --help", "report --help", &long_lines(&folder)] {
        let binary = env!("CARGO_BIN_EXE_nodeless");
        let commands = format!("stty cols 60 rows 24; {binary} {command} 2>/dev/null");
        let Some(output) = in_a_terminal(&commands, "", "") else { return };
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        // A word is never broken.
        let too_long = |line: &&&str| line.chars().count() > 60 && line.trim().contains(' ');
        let found: Vec<_> = lines.iter().filter(too_long).collect();
        assert!(found.is_empty(), "{command}: {found:#?}");
        let wide = run(std::process::Command::new("sh").args(["-c", &format!("{binary} {command}")])).stdout;
        assert!(!wide.is_empty() && lines.len() > wide.lines().count(), "nothing was wrapped: {output}");
    }
}

#[test]
fn a_plan_shows_its_stages_on_a_terminal_only() {
    let folder = Folder::new();
    let command = long_lines(&folder);
    let binary = env!("CARGO_BIN_EXE_nodeless");
    let Some(output) = in_a_terminal(&format!("{binary} {command} --disruption"), "", "") else { return };
    for stage in ["reading the cluster", "scheduling pending pods", "deciding which nodes to disrupt"] {
        assert!(output.contains(stage), "no {stage:?} in {output}");
    }
    let piped = run(std::process::Command::new("sh").args(["-c", &format!("{binary} {command} --disruption")]));
    assert!(!piped.stderr.contains("reading the cluster"), "{}", piped.stderr);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_simulation_with_what_it_did_until_then() {
    let mut child = piped(nodeless().args(["simulate", "--verbose", "--hours", "8000"]));
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
}
