//! Runs the command as a child process.
#![allow(dead_code, reason = "each test file uses a part of this")]

#[cfg(all(unix, feature = "kubernetes"))]
pub(crate) mod browser;
pub(crate) mod http;
pub(crate) mod objects;

use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for a condition; long, because test machines may be busy.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// The built command.
pub(crate) fn nodeless() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodeless"));
    command.stdin(Stdio::null()).env_remove("KUBECONFIG");
    command
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}")).into()
}

/// Runs commands of a shell in a pseudo-terminal, sends keys after a text appeared, and returns all output.
pub(crate) fn in_a_terminal(commands: &str, after: &str, keys: &str) -> Option<String> {
    // Only the one of util-linux has these options, and knows `--version`.
    if !nodeless_tests::has("script", &["--version"]) {
        return None;
    }
    let mut command = Command::new("script");
    command.args(["-qefc", commands, "/dev/null"]).env("TERM", "xterm").env("NO_COLOR", "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut all = Vec::new();
    let mut bytes = [0; 4096];
    let mut keys = (!keys.is_empty()).then_some(keys);
    while let Ok(count @ 1..) = output.read(&mut bytes) {
        all.extend_from_slice(&bytes[..count]);
        if keys.is_some() && String::from_utf8_lossy(&all).contains(after) {
            child.stdin.as_mut().unwrap().write_all(keys.take().unwrap().as_bytes()).unwrap();
        }
    }
    child.wait().unwrap();
    Some(String::from_utf8_lossy(&all).into_owned())
}

/// Waits until a condition is true.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {TIMEOUT:?} for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A temporary directory that is removed at the end of a test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nodeless-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running `nodeless local`, killed when this is dropped.
pub(crate) struct World {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubernetes: String,
    pub(crate) aws: String,
    /// The address of the view, with `--web`.
    pub(crate) web: Option<String>,
    folder: Folder,
    child: Child,
}

impl World {
    /// Starts `nodeless local` and waits until it serves requests.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let mut command = nodeless();
        command.arg("local").args(["--output", "json", "--kubeconfig", "kubeconfig"]).args(arguments);
        command.current_dir(folder.path()).stdout(Stdio::piped());
        command.stderr(fs::File::create(folder.path().join("log")).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let announced: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let _ = child.kill();
            let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            panic!("`nodeless local` announced {line:?}: {error}; its log: {log}")
        });
        let text = |name: &str| announced[name].as_str().unwrap().to_owned();
        let (kubernetes, aws) = (text("kubernetes"), text("aws"));
        let web = announced["web"].as_str().map(str::to_owned);
        Self { kubeconfig: text("kubeconfig").into(), kubernetes, aws, web, folder, child }
    }

    /// The log of the process so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Sends a signal and waits for the end. Returns the exit code and the output after the first line.
    #[cfg(unix)]
    pub(crate) fn end_by(&mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        wait_for("the end of `nodeless local`", || self.child.try_wait().unwrap().is_some());
        let mut rest = String::new();
        self.child.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the log of `nodeless local`\n{}", self.log());
        }
    }
}

/// kubectl with the kubeconfig of a local cluster.
pub(crate) struct Kubectl<'a> {
    world: &'a World,
}

impl<'a> Kubectl<'a> {
    /// `None` if kubectl is not installed.
    pub(crate) fn new(world: &'a World) -> Option<Self> {
        nodeless_tests::has("kubectl", &["version", "--client"]).then_some(Self { world })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.world.kubeconfig);
        command.arg("--cache-dir").arg(self.world.folder.path().join("cache"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs kubectl, which may fail.
    pub(crate) fn attempt(&self, arguments: &[&str]) -> Ended {
        run(&mut self.command(arguments))
    }

    /// Runs kubectl, which must succeed, and returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let ended = self.attempt(arguments);
        assert_eq!(ended.code, Some(0), "kubectl {}: {}{}", arguments.join(" "), ended.stdout, ended.stderr);
        ended.stdout
    }

    /// Applies manifests, and returns the output.
    pub(crate) fn apply(&self, manifests: &str, flags: &[&str]) -> String {
        let path = self.world.folder.path().join("manifests.yaml");
        fs::write(&path, manifests).unwrap();
        let path = path.to_str().unwrap().to_owned();
        self.run(&[&["apply", "-f", &path], flags].concat())
    }

    /// The names of all objects of a kind.
    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let names = self.run(&["get", kind, "--output", "jsonpath={.items[*].metadata.name}"]);
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// The number of running pods.
    pub(crate) fn running_pods(&self) -> usize {
        let phases = self.run(&["get", "pods", "--output", "jsonpath={.items[*].status.phase}"]);
        phases.split_whitespace().filter(|phase| *phase == "Running").count()
    }
}

/// The example NodePool, for a cluster of this name.
pub(crate) fn example_node_pool(cluster: &str) -> String {
    let path = nodeless_tests::workspace().join("infra/nodepools/default.yaml");
    fs::read_to_string(path).unwrap().replace("CLUSTER", cluster)
}
