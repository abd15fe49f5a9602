//! Ctrl-C during work whose results so far are printed.

use crate::error::CliError;
use crate::shutdown::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a process that SIGINT ended, as shells report it.
const INTERRUPTED: i32 = 130;

/// A flag that Ctrl-C sets.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first Ctrl-C is noted, and the second one ends the process.
    ///
    /// # Errors
    /// When the handlers of signals cannot be installed.
    pub(crate) fn watch() -> Result<Self, CliError> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut end = Shutdown::new()?;
        let set = flag.clone();
        tokio::spawn(async move {
            end.wait().await;
            set.store(true, Ordering::Relaxed);
            end.wait().await;
            std::process::exit(INTERRUPTED);
        });
        Ok(Self(flag))
    }

    /// Whether Ctrl-C was pressed.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
