//! Programs that tests use, and the reports of tests that are skipped without them.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Whether a program is installed completely: it succeeds with arguments such as `--version`, unlike a partial installation or another
/// program of the same name. If not, the test is reported as skipped.
///
/// # Panics
/// When the program is not installed completely, and `NODELESS_REQUIRE_TOOLS` contains its name.
#[must_use]
pub fn has(program: &str, check: &[&str]) -> bool {
    let found = runs(program, check);
    if !found {
        skipped(
            program,
            &format!("`{program} {}` fails: {program} is not installed, or not completely", check.join(" ")),
        );
    }
    found
}

/// Whether a program starts and succeeds with these arguments.
#[must_use]
pub fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Reports that the running test, or a part of it, is skipped without a program: on standard error, and in the file
/// `NODELESS_RESULTS`, from which `make test` makes its summary.
///
/// # Panics
/// When `NODELESS_REQUIRE_TOOLS` contains the program.
pub fn skipped(program: &str, reason: &str) {
    let required = std::env::var("NODELESS_REQUIRE_TOOLS").unwrap_or_default();
    assert!(!is_required(&required, program), "NODELESS_REQUIRE_TOOLS contains {program}: {reason}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Written directly, because cargo shows what `eprintln` prints only for tests that fail. An error of it must not fail the test.
    let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
    if let Some(path) = std::env::var_os("NODELESS_RESULTS") {
        let line = serde_json::json!({ "result": "skipped", "test": test, "reason": reason });
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        assert!(written.is_ok(), "NODELESS_RESULTS={} cannot be written: {written:?}", path.display());
    }
}

/// Whether a list of names separated by spaces, as in `NODELESS_REQUIRE_TOOLS`, contains a program.
fn is_required(required: &str, program: &str) -> bool {
    required.split_whitespace().any(|name| name == program)
}

#[cfg(test)]
mod tests {
    use super::{is_required, runs};

    #[test]
    fn only_what_is_named_is_required() {
        assert!(is_required("kubectl go", "go"));
        assert!(!is_required("terraform-provider", "terraform"));
        assert!(!is_required("", "go"));
    }

    #[test]
    fn a_program_is_there_if_it_succeeds() {
        assert!(runs("sh", &["-c", "exit 0"]));
        assert!(!runs("sh", &["-c", "exit 3"]), "half an installation");
        assert!(!runs("nodeless-no-such-program", &["--version"]));
    }
}
