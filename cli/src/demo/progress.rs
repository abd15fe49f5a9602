//! The output of the demo: a line for each step, with details.

use crate::local::human_duration;
use console::{Style, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

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
pub(crate) struct Progress {
    spinner: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { spinner: std::io::stdout().is_terminal().then(spinner) }
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
        self.print(&format!("{mark} {} {}", pad(what, TIMES_AT), style().dim().apply_to(times)));
        for detail in details.iter().flat_map(|detail| detail.lines()) {
            self.print(&format!("    {}", style().dim().apply_to(detail)));
        }
    }

    /// Prints a failed step.
    pub(crate) fn failed(&self, what: &str) {
        self.print(&format!("{} {what}", style().red().apply_to("✘")));
    }

    /// Prints the headings of the columns with times.
    pub(crate) fn headings(&self) {
        let headings = format!("  {} {:>10} {:>8}", pad("", TIMES_AT), "simulated", "wall");
        self.print(&style().dim().apply_to(headings).to_string());
    }

    /// Prints a line.
    pub(crate) fn print(&self, line: &str) {
        match &self.spinner {
            // The demo continues if the terminal is closed.
            Some(spinner) => spinner.suspend(|| println!("{line}")),
            None => println!("{line}"),
        }
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
