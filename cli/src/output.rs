//! Standard output and standard error.
//!
//! Everything that a command prints goes through this module, and without characters that are not printable ([`printable()`]), because
//! most texts contain what others wrote: names, annotations and messages of a cluster, of AWS or of a file.
//!
//! A reader such as `head` may close its end of a pipe early. The macros `println!` and `eprintln!` panic then; these functions
//! report it, and the command ends as it would otherwise.

mod rounded;

use crate::error::CliError;
use console::Term;
use nodeless_model::printable::{is_printable, printable, printable_json, printable_line};
use nodeless_telemetry::{Level, Metrics, Sink};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use textwrap::{Options, WordSplitter};

/// A terminal with fewer columns gets lines of this length, which it breaks itself: text in narrower columns is unreadable.
const MIN_COLUMNS: usize = 40;
/// The maximum column at which the continuation of a line starts.
const MAX_INDENT: usize = 24;

/// Whether somebody reads standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The text was written.
    Open,
    /// The reader closed the pipe. Nothing that is printed from now on is read.
    Closed,
}

/// Prints to standard output.
///
/// # Errors
/// When it cannot be written for another reason than a closed pipe, such as a full disk.
pub(crate) fn print(text: impl Display) -> Result<Reader, CliError> {
    to_stdout(&printable(&text.to_string()))
}

/// Prints a line with escape sequences for colours to standard output. The texts of others in it are printable already.
///
/// # Errors
/// As for [`print()`].
pub(crate) fn styled_line(text: impl Display) -> Result<Reader, CliError> {
    to_stdout(&format!("{text}\n"))
}

/// Prints a value as JSON in several lines to standard output, with numbers of at most six decimals.
///
/// # Errors
/// When it cannot be serialized, or as for [`print()`].
pub(crate) fn json(value: &impl Serialize) -> Result<Reader, CliError> {
    json_line(&rounded::json(value).map_err(CliError::Json)?)
}

/// Prints JSON and a line break to standard output.
///
/// # Errors
/// As for [`print()`].
pub(crate) fn json_line(json: &str) -> Result<Reader, CliError> {
    line(printable_json(json))
}

/// Prints a value as YAML to standard output.
///
/// # Errors
/// As for [`json()`].
pub(crate) fn yaml(value: &impl Serialize) -> Result<Reader, CliError> {
    let yaml = serde_saphyr::to_string(value).map_err(|error| CliError::Form(error.to_string()))?;
    // Only a string in double quotes can have escapes, and all strings of JSON, which is YAML too, are in double quotes.
    if yaml.chars().all(|character| character == '\n' || is_printable(character)) { print(yaml) } else { json(value) }
}

fn to_stdout(text: &str) -> Result<Reader, CliError> {
    write(&mut stdout().lock(), format_args!("{text}")).map_err(CliError::Print)
}

/// Prints a line to standard output.
///
/// # Errors
/// As for [`print()`].
pub(crate) fn line(text: impl Display) -> Result<Reader, CliError> {
    print(format_args!("{text}\n"))
}

/// Prints text to standard output, with long lines wrapped between words if it is a terminal. Columns of a table and what a program
/// reads are printed with [`print()`].
///
/// # Errors
/// As for [`print()`].
pub(crate) fn text(text: &str) -> Result<Reader, CliError> {
    match columns(&Term::stdout()) {
        Some(columns) => print(wrapped(&printable(text), columns)),
        None => print(text),
    }
}

/// Prints text whose indented lines are commands. Commands are not wrapped: a terminal breaks them so that they can still be copied as a
/// whole.
///
/// # Errors
/// As for [`print()`].
pub(crate) fn text_with_commands(text: &str) -> Result<Reader, CliError> {
    match columns(&Term::stdout()) {
        Some(columns) => print(wrapped_around_commands(&printable(text), columns)),
        None => print(text),
    }
}

/// The columns of a terminal; `None` for a file or a pipe.
fn columns(term: &Term) -> Option<usize> {
    let (_, columns) = term.is_term().then(|| term.size_checked()).flatten()?;
    Some(usize::from(columns).max(MIN_COLUMNS))
}

/// A text in lines of at most this many columns, broken between words. A command in backticks stays on one line: a shell would take the
/// beginning of its second line for another command.
pub(crate) fn lines(text: &str, columns: usize) -> Vec<String> {
    let options = Options::new(columns).break_words(false).word_splitter(WordSplitter::NoHyphenation);
    let text = with_unbroken_commands(&printable_line(text));
    textwrap::wrap(&text, options).into_iter().map(|line| line.replace(UNBROKEN, " ")).collect()
}

/// A space in a command until the text is wrapped: a no-break space.
const UNBROKEN: char = '\u{a0}';

fn with_unbroken_commands(text: &str) -> String {
    let unbroken = UNBROKEN.to_string();
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| if index % 2 == 1 { part.replace(' ', &unbroken) } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

/// The text with lines of at most this many columns where words allow it.
fn wrapped(text: &str, columns: usize) -> String {
    let wrapped = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(line) => wrapped_line(line, columns) + "\n",
        None => wrapped_line(line, columns),
    });
    wrapped.collect()
}

fn wrapped_around_commands(text: &str, columns: usize) -> String {
    let lines = text.split_inclusive('\n');
    lines.map(|line| if line.starts_with("  ") { line.to_owned() } else { wrapped(line, columns) }).collect()
}

fn wrapped_line(line: &str, columns: usize) -> String {
    if console::measure_text_width(line) <= columns {
        return line.to_owned();
    }
    let indent = " ".repeat(continuation(line));
    let start = &line[..line.len() - line.trim_start().len()];
    let options = Options::new(columns)
        .initial_indent(start)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(&with_unbroken_commands(line.trim_start()), options).replace(UNBROKEN, " ")
}

/// The column at which the continuation of a line starts: that of the text after a label, which two spaces separate from it, else
/// two columns after the start of the line.
fn continuation(line: &str) -> usize {
    let start = line.len() - line.trim_start().len();
    let label = line.trim_start().find("  ").map(|end| {
        let rest = &line[start + end..];
        start + end + (rest.len() - rest.trim_start().len())
    });
    label.filter(|column| *column <= MAX_INDENT).unwrap_or(start + 2)
}

/// Prints a formatted line to standard error.
macro_rules! report {
    ($($text:tt)*) => { $crate::output::error_line(format_args!($($text)*)) };
}
pub(crate) use report;

/// Prints a line to standard error. If that is not possible, there is nowhere to report it.
pub(crate) fn error_line(text: impl Display) {
    let text = indented(&printable(&text.to_string()));
    let text = match columns(&Term::stderr()) {
        Some(columns) => wrapped(&text, columns),
        None => text,
    };
    let _unprintable = write(&mut stderr().lock(), format_args!("{text}\n"));
}

/// A text whose lines after the first are indented: the texts of others in it do not begin a line.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n  ")
}

/// Log lines to standard error, as text; no metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    /// The minimum level that is printed.
    pub(crate) level: Level,
}

impl Sink for Plain {
    fn line(&self, level: Level, _json: &dyn Fn() -> String, people: &dyn Fn() -> String) {
        if level >= self.level {
            error_line(people());
        }
    }

    fn metrics(&self, _cluster: &str, _at: jiff::Timestamp, _metrics: &Metrics) {}
}

/// Log lines of libraries to standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LibraryLog;

impl Write for LibraryLog {
    /// Gets each line as a whole.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        error_line(String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write(to: &mut dyn Write, text: std::fmt::Arguments<'_>) -> std::io::Result<Reader> {
    match to.write_fmt(text).and_then(|()| to.flush()) {
        Ok(()) => Ok(Reader::Open),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Closed),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let text = "error: one two three four five\nshort\n";
        assert_eq!(wrapped(text, 20), "error: one two three\n  four five\nshort\n");
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn the_continuation_of_a_label_starts_at_its_text() {
        let text = "    why       no cheaper type fits\n    or  a, b, c, d, e, f, g, h, i";
        assert_eq!(
            wrapped(text, 26),
            "    why       no cheaper\n              type fits\n    or  a, b, c, d, e, f,\n        g, h, i"
        );
    }

    #[test]
    fn a_command_in_a_sentence_is_not_broken() {
        let text = "run `kubectl -n a scale deployment 'b c'` first,\nthen wait";
        assert_eq!(lines(text, 12), ["run", "`kubectl -n a scale deployment 'b c'`", "first, then", "wait"]);
        assert_eq!(wrapped("  run `a b c d e f g` now", 12), "  run\n    `a b c d e f g`\n    now");
    }

    #[test]
    fn texts_of_others_begin_no_line() {
        assert_eq!(indented("error: no: b\nerror: c\n"), "error: no: b\n  error: c");
    }

    #[test]
    fn commands_are_not_wrapped() {
        let text = "one two three four\n\n  kubectl get nodes,pods --watch\n";
        assert_eq!(wrapped_around_commands(text, 10), "one two\n  three\n  four\n\n  kubectl get nodes,pods --watch\n");
    }

    #[test]
    fn words_are_never_broken() {
        let name = "arn:aws:iam::123456789012:instance-profile/a-very-long-name";
        assert_eq!(wrapped(&format!("at {name} now"), 40), format!("at\n  {name}\n  now"));
    }
}
