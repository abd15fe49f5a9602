//! The end of a command that runs until it is interrupted.

use crate::error::CliError;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the process: SIGINT (Ctrl-C), SIGTERM, and SIGHUP when its terminal is closed.
pub(crate) struct Shutdown {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
    /// `None` if the process was started to ignore it, as by `nohup`.
    #[cfg(unix)]
    hang_up: Option<Signal>,
}

impl Shutdown {
    /// Installs handlers, so that these signals no longer end the process immediately.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(crate) fn new() -> Result<Self, CliError> {
        #[cfg(unix)]
        let install = |kind| signal(kind).map_err(CliError::Signals);
        Ok(Self {
            #[cfg(unix)]
            interrupt: install(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: install(SignalKind::terminate())?,
            #[cfg(unix)]
            hang_up: if ignores_hang_up() { None } else { Some(install(SignalKind::hangup())?) },
        })
    }

    /// Waits for the first of these signals.
    pub(crate) async fn wait(&mut self) {
        #[cfg(unix)]
        {
            let Self { interrupt, terminate, hang_up } = self;
            let hung_up = async {
                match hang_up {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hung_up => {}
            }
        }
        #[cfg(not(unix))]
        let _ended_either_way = tokio::signal::ctrl_c().await;
    }
}

/// Whether SIGHUP is ignored, which a handler would change. Linux lists the ignored signals of a process; elsewhere this is not known.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|signals| signals & 1 == 1)
}
