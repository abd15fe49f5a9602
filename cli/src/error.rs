//! What can go wrong with a command, told to a person.

#[cfg(feature = "kubernetes")]
use nodeless_kubernetes::install::InstallError;
use nodeless_ports::{ErrorKind, PortError};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a command could not do what was asked for. Each text says what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Logs could not be set up.
    #[error(transparent)]
    Logs(#[from] nodeless_telemetry::InitError),
    /// A file could not be written.
    #[error("{path} cannot be written: {source}; choose another place or mend its permissions")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file could not be read.
    #[error("{path} cannot be read: {source}; check the name and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file has no items of the claims table.
    #[error("{path}: {why}; give what `aws dynamodb query ... --output json` prints, without --query")]
    Items {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file is no snapshot of a plan.
    #[error("{path}: {source}")]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        source: nodeless_operations::plan::SavedError,
    },
    /// A folder has no file that could be an export.
    #[error("{path} has no .yaml, .yml or .json file; name the files themselves")]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file is no catalog.
    #[error("{path}: {source}")]
    Catalog {
        /// The file.
        path: PathBuf,
        /// Why.
        source: nodeless_catalog::file::CatalogFileError,
    },
    /// The facts that were compiled in are damaged.
    #[error(transparent)]
    Facts(&'static nodeless_catalog::facts::FactsError),
    /// A result has no JSON form.
    #[error("the result cannot be written as JSON: {0}; please report this")]
    Json(#[source] serde_json::Error),
    /// Standard output does not take what is printed.
    #[error("standard output cannot be written: {0}")]
    Print(#[source] std::io::Error),
    /// The command needs AWS, and this build has none of it.
    #[cfg(not(feature = "aws"))]
    #[error(
        "this build has no AWS SDK, and `catalog export` reads EC2; build it with `cargo build --release -p nodeless --features aws` (some minutes)"
    )]
    WithoutAws,
    /// The command needs a cluster, and this build has no Kubernetes client.
    #[cfg(not(feature = "kubernetes"))]
    #[error(
        "this build has no Kubernetes client, which this command needs; build it with `cargo build --release -p nodeless`, or give `plan` a file with --cluster"
    )]
    WithoutKubernetes,
    /// There is no such zone.
    #[error(
        "--zonal-shift {zone}: the catalog has no such zone, only {known}; give the catalog of its region with --catalog"
    )]
    UnknownZone {
        /// What was asked for.
        zone: String,
        /// The zones that there are.
        known: String,
    },
    /// Nodes are explained only where it is asked which of them go.
    #[error("--explain {node}: this is a node; give --disruption too to hear why it goes or stays")]
    ExplainNode {
        /// The node.
        node: String,
    },
    /// There is no pod of the name.
    #[error(
        "--explain {pod}: there is no such pod; name it as NAMESPACE/NAME, or with --disruption give a node's name"
    )]
    UnknownPod {
        /// As it was given.
        pod: String,
    },
    /// There are several pods of the name.
    #[error("--explain {pod}: there are several pods of this name; name one of {candidates}")]
    AmbiguousPod {
        /// As it was given.
        pod: String,
        /// Their full names.
        candidates: String,
    },
    /// What was made cannot be written in the form that was asked for.
    #[error("the plan cannot be written: {0}; choose another form with --output")]
    Form(String),
    /// A file that we did not write is where ours would go.
    #[error("{path} is there already and is not from an earlier local world; name another file with --kubeconfig")]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// The file that we would write is in use.
    #[error(
        "{path} belongs to a local world that still runs at {address}; end that one (Ctrl-C), or name another file with --kubeconfig"
    )]
    FileInUse {
        /// The file.
        path: PathBuf,
        /// Where the other world answers.
        address: SocketAddr,
    },
    /// A port could not be listened on.
    #[error(
        "{flag} {port}: 127.0.0.1:{port} cannot be listened on: {source}; choose another port, or leave {flag} out for a free one"
    )]
    Listen {
        /// The flag that names the port.
        flag: &'static str,
        /// The port; 0 for any.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
    /// The signals that end the process could not be listened for.
    #[error("signals cannot be listened for: {0}; this is a limit of the system that it runs on")]
    Signals(#[source] std::io::Error),
    /// The world could not be given a thread.
    #[error("no thread can be started: {0}; end other programs, or raise the limit of processes (ulimit -u)")]
    Thread(#[source] std::io::Error),
    /// The world could not be made.
    #[error(transparent)]
    World(#[from] nodeless_world::WorldError),
    /// A scenario could not be read.
    #[error(
        "{path} cannot be read: {source}; name a scenario file, or a built-in scenario: day, faults, faults-all-features, schedules or stateful"
    )]
    Scenario {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A scenario could not be used.
    #[error(transparent)]
    ScenarioForm(#[from] nodeless_driver::scenarios::ScenarioError),
    /// A run failed.
    #[error(transparent)]
    Simulation(#[from] nodeless_driver::simulation::SimulationError),
    /// What went wrong has been told already.
    #[error("")]
    Told,
    /// The definitions could not be made.
    #[error(transparent)]
    Crd(#[from] nodeless_api::crds::CrdError),
    /// The installation stopped.
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The cluster did not answer as expected.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl CliError {
    /// What to do next, where the text of an adapter does not say so: it does not know that a person is there.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        let error = match self {
            Self::Port(error) => error,
            #[cfg(feature = "kubernetes")]
            Self::Install(InstallError::Api(error)) => error,
            _ => return None,
        };
        match error.kind {
            ErrorKind::Unavailable => Some(
                "check with `kubectl cluster-info` that this kubeconfig and context reach the cluster from here; a private endpoint needs its VPN",
            ),
            ErrorKind::Denied => Some("use a kubeconfig whose user is bound to cluster-admin"),
            ErrorKind::Throttled => Some("try again in a minute"),
            ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Invalid => None,
        }
    }
}
