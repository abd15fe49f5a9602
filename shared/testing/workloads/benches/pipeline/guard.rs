//! Processes with a time limit.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The interval at which the time of a process is checked.
const STEP: Duration = Duration::from_millis(20);

/// The output of another process of this program until it ended or was killed.
pub struct Stated {
    pub lines: Vec<String>,
    pub in_time: bool,
}

/// Runs this program with other arguments, and kills it if it takes more than this processor time, or more than ten times
/// this wall time, because it may sleep.
pub fn run(arguments: &[&str], most: Duration) -> Stated {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let (state, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if state.send(line).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    let mut stated = Stated { lines: Vec::new(), in_time: true };
    loop {
        match heard.recv_timeout(STEP) {
            Ok(line) => stated.lines.push(line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if spent_by(child.id()) > most || start.elapsed() > most * 10 {
                    stated.in_time = false;
                    child.kill().unwrap();
                    break;
                }
            }
        }
    }
    child.wait().unwrap();
    stated
}

/// Processor time of the first thread of a process, which does all the work here.
fn spent_by(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
