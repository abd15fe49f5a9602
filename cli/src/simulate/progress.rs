//! The progress of a simulation on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use std::io::IsTerminal as _;

/// The steps of the bar of a single run.
const STEPS: u64 = 1000;

/// A bar on standard error; nothing if that is not a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// For one run.
    pub(crate) fn of_run() -> Self {
        Self::new(STEPS, "{bar:30} {percent:>3}%  simulated time {msg}")
    }

    /// For the runs of this number of seeds.
    pub(crate) fn of_seeds(seeds: u64) -> Self {
        Self::new(seeds, "{bar:30} {pos}/{len} seeds, {eta} left")
    }

    fn new(length: u64, template: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// The run has come to this simulated time, and this part of it is done, from 0 to 1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of 1000"
    )]
    pub(crate) fn advance(&self, at: Timestamp, part: f64) {
        self.0.set_position((part.clamp(0.0, 1.0) * STEPS as f64) as u64);
        self.0.set_message(at.strftime("%Y-%m-%d %H:%M").to_string());
    }

    /// Counts a seed as done.
    pub(crate) fn seed_done(&self) {
        self.0.inc(1);
    }

    /// Prints without the bar.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
