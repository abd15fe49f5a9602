//! Input that no API server or tool writes: every command ends with a message, and every server answers.
//!
//! `NODELESS_SEEDS=FROM..TO` selects the seeds of changed input. `make test` runs a few, which change with the commit, and `make nightly`
//! hundreds.

mod exports;
mod files;
mod mutation;
mod oversized;
#[cfg(unix)]
mod requests;

use crate::support::{Ended, TIMEOUT, nodeless};
use std::io::Write as _;
use std::ops::Range;
use std::process::Stdio;
use std::time::Instant;

/// The seeds by default.
const FEW: Range<u64> = 0..2;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("NODELESS_SEEDS") else { return FEW };
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.unwrap_or_else(|| panic!("NODELESS_SEEDS={text} is not a range; write it like 0..200"))
}

/// Runs a command with this standard input. It must end by itself, with one of the documented exit codes, and print only whole lines
/// that start with what they are.
fn ended(arguments: &[&str], input: &[u8], what: &str) -> Ended {
    let mut command = nodeless();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    // A command may end before it has read all of its input.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let id = child.id();
    let begun = Instant::now();
    let output = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| child.wait_with_output().unwrap());
        while !waiting.is_finished() {
            assert!(begun.elapsed() < TIMEOUT, "{what}: {arguments:?} (process {id}) does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        waiting.join().unwrap()
    });
    writer.join().unwrap();
    let ended = Ended::from(output);
    let known = ["error: ", "warning: ", "note: ", "changed: ", "lost: ", "check: "];
    let unknown = ended.stderr.lines().find(|line| !known.iter().any(|start| line.starts_with(start)));
    assert!(matches!(ended.code, Some(0..=2)) && unknown.is_none(), "{what}: {arguments:?}: {ended:?}");
    assert!(ended.code != Some(1) || ended.stderr.contains("error: "), "{what}: {arguments:?}: {ended:?}");
    ended
}
