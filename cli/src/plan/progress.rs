//! The progress of a plan on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::IsTerminal as _;
use std::time::Duration;

/// The time between two frames.
const FRAME: Duration = Duration::from_millis(80);

/// A stage of the plan that is shown on standard error until this is dropped; nothing if that is not a terminal.
pub(crate) struct Stage(ProgressBar);

impl Stage {
    /// Shows the stage, with the time since it began.
    pub(crate) fn begin(what: impl Into<Cow<'static, str>>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            spinner.set_style(style);
        }
        spinner.set_message(what);
        spinner.enable_steady_tick(FRAME);
        Self(spinner)
    }

    /// Shows another text for it.
    pub(crate) fn change(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
