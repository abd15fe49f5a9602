//! The end of a command that runs until it is interrupted.

use crate::error::CliError;

/// The signals that end the process: SIGINT (Ctrl-C) and SIGTERM.
pub(crate) struct Shutdown {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 2],
}

impl Shutdown {
    /// Installs handlers, so that these signals no longer end the process immediately.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(crate) fn new() -> Result<Self, CliError> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            signals: [
                signal(SignalKind::interrupt()).map_err(CliError::Signals)?,
                signal(SignalKind::terminate()).map_err(CliError::Signals)?,
            ],
        })
    }

    /// Waits for the first of these signals.
    pub(crate) async fn wait(&mut self) {
        #[cfg(unix)]
        {
            let [interrupt, terminate] = &mut self.signals;
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        #[cfg(not(unix))]
        let _ended_either_way = tokio::signal::ctrl_c().await;
    }
}
