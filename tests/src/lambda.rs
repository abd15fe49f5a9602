//! The Lambda Runtime API, served to a function binary as AWS serves it: the function asks for the next event, and posts an
//! answer or an error for it.

use crate::{Process, workspace};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::routing::{get, post};
use serde_json::Value;
use std::collections::HashMap;
use std::future::Future;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::path::Path as FilePath;
use std::process::{ChildStdout, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The timeout of a function for one event in a test; far more than any needs, so that only a function that hangs reaches it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The trace header of each invocation. Lambda counts the invocations of a chain of messages by its lineage, so a call that lacks it begins
/// another chain: <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>.
pub const TRACE: &str =
    "Root=1-00000000-000000000000000000000000;Parent=0000000000000000;Sampled=0;Lineage=1:00000000:0";

/// The response of a function to an event.
pub type Answer = Result<Value, Value>;

type Metrics = Arc<Mutex<HashMap<String, f64>>>;

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Answer>>>>;

/// An event on its way to the function.
#[derive(Debug)]
struct Invocation {
    id: String,
    event: String,
    timeout: Duration,
}

#[derive(Clone)]
struct Api {
    events: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>>,
    waiting: Waiting,
    ready: Arc<Mutex<Option<Instant>>>,
}

/// A function binary that runs against a Lambda Runtime API of our own.
///
/// When it is dropped, the test fails if the function logged a problem that the test did not [expect](Self::expect_problem),
/// or did not log one that it did.
#[derive(Debug)]
pub struct Function {
    process: Process,
    problems: Option<JoinHandle<Vec<String>>>,
    logged: Arc<AtomicU64>,
    /// The sums of the metrics that it has published.
    metrics: Metrics,
    expected: Vec<String>,
    possible: Vec<String>,
    any_expected: bool,
    started: Instant,
    ready: Arc<Mutex<Option<Instant>>>,
    send: mpsc::UnboundedSender<Invocation>,
    timeout: Duration,
    waiting: Waiting,
    count: u64,
}

impl Function {
    /// Starts a function binary with these environment variables beside the ones that Lambda sets.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start(binary: &str, variables: &[(&str, &str)]) -> Self {
        let (send, events) = mpsc::unbounded_channel();
        let waiting = Waiting::default();
        let ready = Arc::default();
        let api = Api {
            events: Arc::new(tokio::sync::Mutex::new(events)),
            waiting: Arc::clone(&waiting),
            ready: Arc::clone(&ready),
        };
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .route("/2018-06-01/runtime/init/error", post(async || StatusCode::ACCEPTED))
            .with_state(api);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        tokio::spawn(async move { axum::serve(listener, router).await });

        let mut command = Command::new(binary);
        command
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "test")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "test")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "test")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .envs(variables.iter().copied());
        let started = Instant::now();
        let (process, stdout) = Process::start_reading(&mut command);
        let logged = Arc::<AtomicU64>::default();
        let metrics = Metrics::default();
        let (counter, sums) = (Arc::clone(&logged), Arc::clone(&metrics));
        let problems = Some(std::thread::spawn(move || problems(stdout, &counter, &sums)));
        let (expected, possible, any_expected, count) = (Vec::new(), Vec::new(), false, 0);
        let timeout = TIMEOUT;
        Self {
            process,
            problems,
            logged,
            metrics,
            expected,
            possible,
            any_expected,
            started,
            ready,
            send,
            timeout,
            waiting,
            count,
        }
    }

    /// From now on Lambda gives the function so long for an event. The test waits for its answer all the same.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The test causes a problem that is logged in these words.
    pub fn expect_problem(&mut self, words: &str) {
        self.expected.push(words.to_owned());
    }

    /// A problem that is logged in these words depends on the speed of the machine: throttling, for example.
    pub fn allow_problem(&mut self, words: &str) {
        self.possible.push(words.to_owned());
    }

    /// The test takes away what the function needs, so whatever problem it has is the test's doing.
    pub fn expect_any_problem(&mut self) {
        self.any_expected = true;
    }

    /// Ends the function, and returns the problems that it logged unexpectedly, or that are expected and were not logged.
    #[must_use]
    pub fn end(mut self) -> Vec<String> {
        self.surprises()
    }

    /// The problems that the function logged unexpectedly, and those that are expected and were not logged. They are found once.
    fn surprises(&mut self) -> Vec<String> {
        self.process.end();
        let Some(reader) = self.problems.take() else { return Vec::new() };
        let logged = reader.join().expect("the reader only reads");
        if self.any_expected {
            return Vec::new();
        }
        // At a terminal, warnings of libraries go to the terminal instead.
        let watched = std::io::stderr().is_terminal() && std::env::var_os("NODELESS_TEST_OUTPUT").is_some();
        let missing =
            self.expected.iter().filter(|_| !watched).filter(|words| !logged.iter().any(|line| line.contains(*words)));
        let missing = missing.map(|words| format!("not logged, but expected: {words}"));
        let named = |line: &str| self.expected.iter().chain(&self.possible).any(|words| line.contains(words));
        let unexpected = logged.iter().filter(|line| !named(line));
        unexpected.cloned().chain(missing).collect()
    }

    /// Gives the function an event and waits for its answer: `Err` is the error that the function reported.
    ///
    /// # Panics
    /// When it ends, or does not answer within a minute.
    pub async fn invoke(&mut self, event: &Value) -> Answer {
        self.count += 1;
        let id = format!("request-{}", self.count);
        let (send, receive) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), send);
        let invocation = Invocation { id, event: event.to_string(), timeout: self.timeout };
        self.send.send(invocation).expect("the API is served for as long as this lives");
        let answered = tokio::time::timeout(TIMEOUT.max(self.timeout), receive).await;
        answered
            .expect("the function answers within a minute, or within its timeout if that is longer")
            .expect("the API keeps its channel")
    }

    /// Gives the function an event and ends its process when something is true, as Lambda does at the function's timeout.
    ///
    /// # Panics
    /// When it answers before that.
    pub async fn kill_when(mut self, event: &Value, holds: impl Future<Output = ()>) {
        tokio::select! {
            answer = self.invoke(event) => panic!("it answered before it was killed: {answer:?}"),
            () = holds => self.process.end(),
        }
    }

    /// The sum of the values of a metric that the function has published so far.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or_default()
    }

    /// Whether the function has published a metric, whatever its value.
    #[must_use]
    pub fn publishes(&self, name: &str) -> bool {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// The bytes that the function has logged so far.
    #[must_use]
    pub fn logged_bytes(&self) -> u64 {
        self.logged.load(Ordering::Relaxed)
    }

    /// The processor time that the process has used so far, where the system reports it.
    #[must_use]
    pub fn processor_time(&self) -> Option<Duration> {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).ok()?;
        // The name, in parentheses, may contain spaces; utime and stime are the 12th and 13th field behind it. Linux counts
        // them in hundredths of a second for programs (USER_HZ, proc(5)).
        let mut fields = status.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
    }

    /// Gives the function a file of `events/`.
    ///
    /// # Panics
    /// When there is no such file, it is not JSON, or the function does not answer.
    pub async fn invoke_sample(&mut self, file: &str) -> Answer {
        self.invoke(&sample(file)).await
    }

    /// From the start of the process until it asked for its first event.
    #[must_use]
    pub fn start_to_ready(&self) -> Option<Duration> {
        let ready = *self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.map(|ready| ready.duration_since(self.started))
    }

    /// The most memory that the process has used so far, in kilobytes, where the system reports it.
    #[must_use]
    pub fn peak_memory_kilobytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().trim_end_matches(" kB").trim().parse().ok()
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let surprises = self.surprises();
        // A second panic would end the process before the first is printed.
        assert!(
            surprises.is_empty() || std::thread::panicking(),
            "the function had problems:\n{}",
            surprises.join("\n")
        );
    }
}

/// The lines that report a problem: warnings and errors, and reports with problems in them.
fn problems(stdout: ChildStdout, logged: &AtomicU64, metrics: &Metrics) -> Vec<String> {
    let show = std::env::var_os("NODELESS_TEST_OUTPUT").is_some();
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let lines = lines.inspect(|line| {
        logged.fetch_add(line.len() as u64 + 1, Ordering::Relaxed);
        if show {
            println!("{line}");
        }
        add_metrics(line, &mut metrics.lock().unwrap_or_else(PoisonError::into_inner));
    });
    lines.filter(|line| reports_a_problem(line)).collect()
}

/// Adds the values of a line in CloudWatch's embedded metric format.
fn add_metrics(line: &str, sums: &mut HashMap<String, f64>) {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else { return };
    if fields.contains_key("_aws") {
        for (name, value) in &fields {
            let values = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
            let sum: f64 = values.iter().filter_map(Value::as_f64).sum();
            *sums.entry(name.clone()).or_default() += sum;
        }
    }
}

fn reports_a_problem(line: &str) -> bool {
    // Functions log only JSON; other lines come from a panic or from the runtime.
    let Ok(line) = serde_json::from_str::<Value>(line) else { return true };
    let warned = ["WARN", "ERROR"].iter().any(|level| line["level"] == *level);
    warned || line["problems"].as_array().is_some_and(|problems| !problems.is_empty())
}

/// The binary of a function, built into the same folder as the running test.
///
/// # Panics
/// When it is not built. Cargo builds a package's binaries along with its integration tests, so every function has one.
#[must_use]
pub fn binary(name: &str) -> String {
    let test = std::env::current_exe().expect("a running test has a path");
    let folder = test.parent().and_then(FilePath::parent).expect("tests lie in a folder of the build folder");
    let path = folder.join(name);
    assert!(path.is_file(), "{} is missing; run `cargo test -p {name} --no-run` first", path.display());
    path.display().to_string()
}

/// A file of `events/`, with the messages of a schedule dated now.
///
/// # Panics
/// When there is no such file or it is not JSON.
#[must_use]
pub fn sample(file: &str) -> Value {
    let path = workspace().join("events").join(file);
    let mut event = read_json(&path);
    for record in event.get_mut("Records").and_then(Value::as_array_mut).into_iter().flatten() {
        let body = &mut record["body"];
        let message = body.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(mut message) = message.filter(|message| message.get("at").is_some()) {
            message["at"] = jiff::Timestamp::now().to_string().into();
            *body = message.to_string().into();
        }
    }
    event
}

fn read_json(path: &FilePath) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn next(State(api): State<Api>) -> (HeaderMap, String) {
    api.ready.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    let event = api.events.lock().await.recv().await;
    // When the test has ended there is no event any more: the function is about to be killed.
    let Some(Invocation { id, event, timeout }) = event else { std::future::pending().await };
    let deadline = std::time::SystemTime::now() + timeout;
    let deadline = deadline.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis().to_string();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("lambda-runtime-aws-request-id", id.as_str()),
        ("lambda-runtime-deadline-ms", deadline.as_str()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:123456789012:function:test"),
        ("lambda-runtime-trace-id", TRACE),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).expect("plain ASCII"));
    }
    (headers, event)
}

async fn response(State(api): State<Api>, Path(id): Path<String>, body: String) -> StatusCode {
    answer(&api, &id, Ok(parse(&body)))
}

async fn error(State(api): State<Api>, Path(id): Path<String>, body: String) -> StatusCode {
    answer(&api, &id, Err(parse(&body)))
}

fn parse(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))
}

fn answer(api: &Api, id: &str, answer: Answer) -> StatusCode {
    let waiting = api.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    match waiting {
        Some(waiting) => {
            // The receiver is gone when the test gave up.
            let _ = waiting.send(answer);
            StatusCode::ACCEPTED
        }
        None => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed() {
        let mut sums = HashMap::new();
        let lines = [
            r#"{"_aws":{"CloudWatchMetrics":[]},"ClaimsCreated":1,"Took":[1.5,2]}"#,
            r#"{"_aws":{},"ClaimsCreated":1}"#,
            r#"{"event":"plan-made","ClaimsCreated":5}"#,
            "not JSON",
        ];
        lines.iter().for_each(|line| add_metrics(line, &mut sums));
        assert_eq!((sums["ClaimsCreated"], sums["Took"]), (2.0, 3.5));
    }

    #[test]
    fn problems_are_distinguished_from_successes() {
        for (line, problem) in [
            (r#"{"level":"INFO","event":"sweep-ended","problems":[]}"#, false),
            (
                r#"{"level":"INFO","event":"sweep-ended","problems":["EC2 DescribeInstanceStatus: no such filter"]}"#,
                true,
            ),
            (r#"{"level":"INFO","event":"plan-made"}"#, false),
            (r#"{"_aws":{},"ReconcileErrors":0}"#, false),
            (r#"{"level":"WARN","event":"claim-waits"}"#, true),
            (r#"{"level":"ERROR","fields":{"message":"a message failed"}}"#, true),
            ("thread 'main' panicked", true),
        ] {
            assert_eq!(reports_a_problem(line), problem, "{line}");
        }
    }
}
