//! Shared by tests over real wires: emulators and tools as child processes, found, started and cleaned up.
//!
//! `make test` installs the emulators into `.venv` at the top of the checkout. Where one of them or another program is missing, a test
//! reports it on standard error and passes; it fails if `NODELESS_REQUIRE_TOOLS` contains the program, as in CI.
#![allow(clippy::expect_used, clippy::panic, reason = "this crate is only ever part of tests")]

pub mod lambda;
mod programs;
pub mod proxy;
#[cfg(feature = "stage")]
pub mod stage;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub use programs::{has, runs, skipped};

/// The class that starts DynamoDB Local.
const DYNAMODB_MAIN: &str = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner";

/// The top of the checkout.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace")
}

/// A port on which nothing listens at this moment.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}

/// A child process that is killed when this is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a command in the background. Its output is thrown away unless `NODELESS_TEST_OUTPUT` is set.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdout(output()))
    }

    /// Starts a command in the background whose standard output is read here.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub(crate) fn start_reading(command: &mut Command) -> (Self, ChildStdout) {
        let mut process = Self::spawn(command.stdout(Stdio::piped()));
        let stdout = process.0.stdout.take().expect("its output was asked for");
        (process, stdout)
    }

    fn spawn(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stderr(output()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}")))
    }

    /// Ends it now.
    pub(crate) fn end(&mut self) {
        // A process that has ended already cannot be killed, which is just as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether the process has ended by itself.
    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The destination of the output of processes that is not read here.
fn output() -> Stdio {
    match std::env::var_os("NODELESS_TEST_OUTPUT") {
        Some(_) => Stdio::inherit(),
        None => Stdio::null(),
    }
}

/// A server on loopback, stopped when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// The address, `http://127.0.0.1:PORT`.
    pub url: String,
    _process: Process,
}

/// Starts moto, an emulator of AWS, with a DynamoDB whose transactions are serializable
/// (`tests/tools/serve_moto.py`). `None` when it is not installed.
///
/// # Panics
/// When it does not answer within a minute, and as [`skipped`].
#[must_use]
pub fn moto() -> Option<Server> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(workspace().join(".venv/bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("moto_server"))
        .find(|candidate| candidate.is_file());
    let Some(server) = found else {
        skipped("moto_server", "moto_server is neither in .venv/bin nor in PATH; `make venv` installs it");
        return None;
    };
    // The interpreter of the environment in which moto is installed; pipx and the like put links into PATH.
    let python = server.canonicalize().unwrap_or(server).with_file_name("python");
    let port = free_port();
    let mut command = Command::new(python);
    command.arg(workspace().join("tests/tools/serve_moto.py")).arg(port.to_string());
    Some(serve(&mut command, port))
}

/// DynamoDB as AWS itself emulates it: DynamoDB Local, which `make dynamodb` puts into `.venv/dynamodb`. One server serves all tests that
/// run at the same time, since it keeps the tables of each access key apart. Without DynamoDB Local or Java, the test uses its own moto,
/// and is reported as skipped with DynamoDB Local. `None` where there is neither.
///
/// # Panics
/// When it does not answer within a minute, and as [`skipped`].
#[must_use]
pub fn dynamodb() -> Option<Arc<Server>> {
    dynamodb_local_or("moto takes its place").or_else(|| moto().map(Arc::new))
}

/// DynamoDB Local, for tests of what moto does not emulate: limits and consumed capacity. `None` where it is not installed.
///
/// # Panics
/// When it does not answer within a minute, and as [`skipped`].
#[must_use]
pub fn dynamodb_local() -> Option<Arc<Server>> {
    dynamodb_local_or("nothing takes its place")
}

fn dynamodb_local_or(instead: &str) -> Option<Arc<Server>> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let jars = workspace().join(".venv/dynamodb");
    if !jars.join("installed").is_file() || !runs("java", &["-version"]) {
        let reason = "DynamoDB Local is not installed, which `make dynamodb` does with Java and Maven";
        skipped("dynamodb-local", &format!("{reason}; {instead}"));
        return None;
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return Some(running);
    }
    let port = free_port();
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-cp"]).arg(jars.join("*")).arg(DYNAMODB_MAIN);
    command.args(["-disableTelemetry", "-inMemory", "-port"]).arg(port.to_string());
    let started = Arc::new(serve(&mut command, port));
    *shared = Arc::downgrade(&started);
    Some(started)
}

/// An access key that no other test of this process uses, so that a test has its own tables in [`dynamodb`].
#[must_use]
pub fn access_key() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Starts a command that will listen on the port, and waits until it does.
///
/// # Panics
/// When it ends, or does not listen within a minute.
#[must_use]
pub fn serve(command: &mut Command, port: u16) -> Server {
    let mut process = Process::start(command);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
        assert!(!process.has_ended(), "{command:?} ended before it listened");
        assert!(Instant::now() < deadline, "{command:?} does not listen on port {port} after a minute");
        std::thread::sleep(Duration::from_millis(50));
    }
    Server { url: format!("http://{address}"), _process: process }
}
