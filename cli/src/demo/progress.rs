//! What a person sees of the demo: a line a step, and what there is to know about it.

use crate::local::spoken;
use console::{Style, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;

/// Where the times of a step stand, in columns.
const TIMES_AT: usize = 56;
/// How often the spinner turns.
const FRAME: Duration = Duration::from_millis(80);

/// How long a step took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// On the world's clock.
    pub(crate) world: Duration,
    /// On the wall clock.
    pub(crate) wall: Duration,
}

/// Shows steps: with a spinner at a terminal, in plain lines elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    spinner: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { spinner: std::io::stdout().is_terminal().then(spinner) }
    }

    /// Says what is waited for now. Only a terminal shows it.
    pub(crate) fn waiting_for(&self, what: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(format!("waiting for {what}"));
        }
    }

    /// A step that is done, how long it took, and details.
    pub(crate) fn done(&self, what: &str, took: Took, details: &[String]) {
        let times = format!("{:>10} {:>8}", spoken(took.world), spoken(took.wall));
        let mark = style().green().apply_to("✔");
        self.print(&format!("{mark} {} {}", pad(what, TIMES_AT), style().dim().apply_to(times)));
        for detail in details.iter().flat_map(|detail| detail.lines()) {
            self.print(&format!("    {}", style().dim().apply_to(detail)));
        }
    }

    /// A step that did not happen.
    pub(crate) fn failed(&self, what: &str) {
        self.print(&format!("{} {what}", style().red().apply_to("✘")));
    }

    /// The heads of the columns with times.
    pub(crate) fn heads(&self) {
        let heads = format!("  {} {:>10} {:>8}", pad("", TIMES_AT), "simulated", "wall");
        self.print(&style().dim().apply_to(heads).to_string());
    }

    /// A line as it is.
    pub(crate) fn print(&self, line: &str) {
        match &self.spinner {
            // A terminal that is gone is no reason to stop.
            Some(spinner) => spinner.suspend(|| println!("{line}")),
            None => println!("{line}"),
        }
    }

    /// Takes the spinner away.
    pub(crate) fn finish(&self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

/// Colours only where standard output takes them; `NO_COLOR` is heeded.
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
