//! Standard output and standard error.
//!
//! A reader such as `head` may close its end of a pipe early. The macros `println!` and `eprintln!` panic then; these functions
//! report it, and the command ends as it would otherwise.

use crate::error::CliError;
use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

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
    write(&mut stdout().lock(), format_args!("{text}")).map_err(CliError::Print)
}

/// Prints a line to standard output.
///
/// # Errors
/// As for [`print()`].
pub(crate) fn line(text: impl Display) -> Result<Reader, CliError> {
    print(format_args!("{text}\n"))
}

/// Prints a formatted line to standard error.
macro_rules! report {
    ($($text:tt)*) => { $crate::output::error_line(format_args!($($text)*)) };
}
pub(crate) use report;

/// Prints a line to standard error. If that is not possible, there is nowhere to report it.
pub(crate) fn error_line(text: impl Display) {
    let _unprintable = write(&mut stderr().lock(), format_args!("{text}\n"));
}

fn write(to: &mut dyn Write, text: std::fmt::Arguments<'_>) -> std::io::Result<Reader> {
    match to.write_fmt(text).and_then(|()| to.flush()) {
        Ok(()) => Ok(Reader::Open),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Closed),
        Err(error) => Err(error),
    }
}
