//! The rights of the function in the cluster: it is cluster-admin while it works, and has no right before and after.

use crate::log_lines::WaitingForAccess;
use nodeless_eks::ClusterAdmin;
use nodeless_kubernetes::install::InstallError;
use nodeless_ports::{ErrorKind, PortError};
use nodeless_telemetry::log;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How the function gets its rights and gives them back.
pub(crate) trait Rights {
    /// Makes the function cluster-admin, which takes effect some seconds later. May be repeated.
    async fn begin(&self) -> Result<(), PortError>;
    /// Ends that. May be repeated, and is no error where nothing was begun.
    async fn end(&self) -> Result<(), PortError>;
    /// The command with which a person ends it.
    fn command_to_end(&self) -> String;
}

impl Rights for ClusterAdmin {
    async fn begin(&self) -> Result<(), PortError> {
        self.associate().await
    }

    async fn end(&self) -> Result<(), PortError> {
        self.disassociate().await
    }

    fn command_to_end(&self) -> String {
        Self::command_to_end(self)
    }
}

/// How long the function waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For how long a refusal is expected to pass: Terraform invokes the function as soon as its access entry exists, EKS takes up to a
    /// minute to apply an entry, seconds to apply a policy, and IAM seconds to apply a policy of a role.
    pub(crate) access_within: Duration,
    /// The time between two attempts.
    pub(crate) retry: Duration,
    /// The timeout of one attempt to end the rights.
    pub(crate) end_within: Duration,
}

/// The timeouts of the deployed function.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    access_within: Duration::from_secs(75),
    retry: Duration::from_secs(5),
    end_within: Duration::from_secs(10),
};

/// The number of attempts to end the rights.
const ENDED_AFTER: u32 = 3;

/// The time that has to be left to end the rights: three attempts, and the time between them.
pub(crate) const KEPT_TO_END: Duration = Duration::from_secs(40);

/// Why the work could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("{0}")]
    NoAccess(PortError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(
        "the work did not end before the timeout of the function; raise functions.installer.timeout, and repeat this command"
    )]
    Timeout,
}

impl WorkError {
    /// Whether the same attempt may succeed in a moment, because EKS or IAM has not applied a change yet.
    fn may_pass(&self) -> bool {
        match self {
            Self::NoAccess(error) => error.kind != ErrorKind::Invalid,
            Self::Install(InstallError::Api(error)) => error.kind == ErrorKind::Denied,
            Self::Install(_) | Self::Timeout => false,
        }
    }
}

/// Why an invocation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("{0}")]
    Failed(#[from] WorkError),
    #[error(
        "{}the installer may still be cluster-admin, because its access policy could not be ended: {error}; run `{command}`",
        .work.as_ref().map(|work| format!("{work}; and ")).unwrap_or_default()
    )]
    NotEnded {
        /// Why the work failed, if it did.
        work: Option<WorkError>,
        /// Why the rights were not ended.
        error: PortError,
        /// The command that ends them.
        command: String,
    },
}

/// Does the work as cluster-admin, within this time, and ends the rights in any case: also where an earlier invocation did not.
pub(crate) async fn as_cluster_admin<T>(
    cluster: &str,
    rights: &impl Rights,
    timeouts: Timeouts,
    time: Duration,
    work: impl AsyncFn() -> Result<T, InstallError>,
) -> Result<T, AccessError> {
    let attempts = attempts(cluster, rights, timeouts, work);
    let done = timeout(time, attempts).await.unwrap_or(Err(WorkError::Timeout));
    match end(rights, timeouts).await {
        Ok(()) => Ok(done?),
        Err(error) => Err(AccessError::NotEnded { work: done.err(), error, command: rights.command_to_end() }),
    }
}

/// Begins the rights and works, until neither is refused any more. The rights are begun again before each attempt, because another
/// invocation may have ended them.
async fn attempts<T>(
    cluster: &str,
    rights: &impl Rights,
    timeouts: Timeouts,
    work: impl AsyncFn() -> Result<T, InstallError>,
) -> Result<T, WorkError> {
    let deadline = Instant::now() + timeouts.access_within;
    loop {
        let done = match rights.begin().await {
            Ok(()) => work().await.map_err(WorkError::from),
            Err(error) => Err(WorkError::NoAccess(error)),
        };
        match done {
            Err(error) if error.may_pass() && Instant::now() < deadline => {
                log(Some(cluster), &WaitingForAccess { error: &error.to_string() });
                sleep(timeouts.retry).await;
            }
            done => return done,
        }
    }
}

async fn end(rights: &impl Rights, timeouts: Timeouts) -> Result<(), PortError> {
    let mut attempt = 1;
    loop {
        let silent = || {
            let message = format!("EKS did not answer within {:?}", timeouts.end_within);
            PortError::new(ErrorKind::Unavailable, "EKS DisassociateAccessPolicy", message)
        };
        let ended = timeout(timeouts.end_within, rights.end()).await.unwrap_or_else(|_| Err(silent()));
        if ended.is_ok() || attempt == ENDED_AFTER {
            return ended;
        }
        attempt += 1;
        sleep(timeouts.retry).await;
    }
}

#[cfg(test)]
mod tests;
