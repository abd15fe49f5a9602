//! The output of the demo: a line for each step, with details.

use crate::error::CliError;
use crate::local::human_duration;
use crate::output::{self, Reader};
use console::{Style, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nodeless_model::printable::printable_line;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The column of the times of a step.
const TIMES_AT: usize = 56;
/// The time between two frames of the spinner.
const FRAME: Duration = Duration::from_millis(80);

/// How long a step took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// In simulated time.
    pub(crate) world: Duration,
    /// On the wall clock.
    pub(crate) wall: Duration,
}

/// Prints steps: with a spinner on a terminal, otherwise in plain lines.
#[derive(Debug)]
pub(crate) struct DemoProgress {
    spinner: Option<ProgressBar>,
    /// Notified when standard output cannot be written any more.
    closed: Notify,
    /// Why not.
    end: Mutex<Option<Result<(), CliError>>>,
}

impl DemoProgress {
    pub(crate) fn new() -> Self {
        Self { spinner: std::io::stdout().is_terminal().then(spinner), closed: Notify::new(), end: Mutex::new(None) }
    }

    /// Shows what the current step waits for, on a terminal only.
    pub(crate) fn waiting_for(&self, what: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(format!("waiting for {what}"));
        }
    }

    /// Prints a completed step, its duration and details.
    pub(crate) fn done(&self, what: &str, took: Took, details: &[String]) {
        let times = format!("{:>10} {:>8}", human_duration(took.world), human_duration(took.wall));
        let mark = style().green().apply_to("✔");
        self.print(&format!("{mark} {} {}", pad(&printable_line(what), TIMES_AT), style().dim().apply_to(times)));
        for detail in details.iter().flat_map(|detail| detail.lines()) {
            self.print(&format!("    {}", style().dim().apply_to(printable_line(detail))));
        }
    }

    /// Prints a failed step.
    pub(crate) fn failed(&self, what: &str) {
        self.print(&format!("{} {}", style().red().apply_to("✘"), printable_line(what)));
    }

    /// Prints the headings of the columns with times.
    pub(crate) fn headings(&self) {
        let headings = format!("  {} {:>10} {:>8}", pad("", TIMES_AT), "simulated", "wall");
        self.print(&style().dim().apply_to(headings).to_string());
    }

    /// Prints a line, which may have colours.
    pub(crate) fn print(&self, line: &str) {
        let printed = match &self.spinner {
            Some(spinner) => spinner.suspend(|| output::styled_line(line)),
            None => output::styled_line(line),
        };
        let end = match printed {
            Ok(Reader::Open) => return,
            Ok(Reader::Closed) => Ok(()),
            Err(error) => Err(error),
        };
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(end);
        self.closed.notify_one();
    }

    /// Waits until standard output cannot be written any more. A reader that closed the pipe is no error.
    ///
    /// # Errors
    /// When it cannot be written for another reason.
    pub(crate) async fn closed(&self) -> Result<(), CliError> {
        self.closed.notified().await;
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(Ok(()))
    }

    /// Removes the spinner.
    pub(crate) fn finish(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

/// Colours, if standard output supports them and `NO_COLOR` is not set.
pub(crate) fn style() -> Style {
    Style::new().for_stdout()
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
    if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg:.dim}") {
        spinner.set_style(style.tick_strings(&["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏", " "]));
    }
    spinner.enable_steady_tick(FRAME);
    spinner
}

fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(measure_text_width(text));
    format!("{text}{}", " ".repeat(missing))
}
