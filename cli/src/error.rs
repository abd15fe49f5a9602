//! The errors of the commands.

use jiff::Timestamp;
#[cfg(feature = "kubernetes")]
use nodeless_kubernetes::install::InstallError;
use nodeless_ports::{ErrorKind, PortError};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a command failed. Each message explains what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Logging could not be initialized.
    #[error(transparent)]
    Logs(#[from] nodeless_telemetry::InitError),
    /// A file could not be written.
    #[error("{path} cannot be written: {source}; choose another path or fix its permissions")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file could not be read.
    #[error("{path} cannot be read: {source}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not contain items of the claims table.
    #[error("{path}: {why}; give the output of `aws dynamodb query ... --output json` without --query")]
    Items {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file is not a snapshot of a plan.
    #[error("{path}: {source}")]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        source: nodeless_operations::plan::SavedError,
    },
    /// A folder contains no YAML or JSON file.
    #[error("{path} has no .yaml, .yml or .json file; give the paths of the files")]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not a catalog.
    #[error("{path}: {source}")]
    Catalog {
        /// The file.
        path: PathBuf,
        /// Why.
        source: nodeless_catalog::file::CatalogFileError,
    },
    /// The embedded facts are damaged.
    #[error(transparent)]
    Facts(&'static nodeless_catalog::facts::FactsError),
    /// A result cannot be serialized as JSON.
    #[error("the result cannot be written as JSON: {0}; this is a bug in nodeless; please report it")]
    Json(#[source] serde_json::Error),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Print(#[source] std::io::Error),
    /// The claims table could not be read.
    #[cfg(feature = "aws")]
    #[error(
        "the table {table} cannot be read: {error}; check the region and the credentials of the environment, the right dynamodb:Query, and the name of the table (--table; Terraform's output table_name)"
    )]
    Table {
        /// Its name.
        table: String,
        /// Why.
        error: PortError,
    },
    /// The command needs the AWS SDK, and this build does not include it.
    #[cfg(not(feature = "aws"))]
    #[error(
        "this build does not include the AWS SDK, which `catalog export`, `decisions --cluster` and `report --cluster` need; use a released binary, or build with `cargo build --release -p nodeless --features aws` (takes some minutes)"
    )]
    WithoutAws,
    /// The command needs a cluster, and this build does not include a Kubernetes client.
    #[cfg(not(feature = "kubernetes"))]
    #[error(
        "this build does not include the Kubernetes client, which this command needs; build with `cargo build --release -p nodeless`, or give `plan` a file with --cluster"
    )]
    WithoutKubernetes,
    /// The end of a report is not after its start.
    #[error("--to {to:.0} is not after --from {from:.0}; a report is about the hours from --from until before --to")]
    ReportTimes {
        /// The start.
        from: Timestamp,
        /// The end.
        to: Timestamp,
    },
    /// There is no record of the time of a report.
    #[error("there is no cost record of this time: {what}")]
    NoCosts {
        /// What is recorded.
        what: String,
    },
    /// A cost record cannot be decoded.
    #[error("item {item}: {source}")]
    CostRecord {
        /// Its key.
        item: String,
        /// Why.
        source: nodeless_bill::StoredError,
    },
    /// Costs are not recorded by the label.
    #[error(
        "--by label={key}: costs of this time are not recorded by this label, {}; the variable cost_labels of the Terraform module names the labels",
        if known.is_empty() { "nor by any other".to_owned() } else { format!("but by {known}") }
    )]
    UnknownLabel {
        /// The label.
        key: String,
        /// The recorded ones.
        known: String,
    },
    /// The catalog does not contain the zone.
    #[error(
        "--zonal-shift {zone}: the catalog does not contain this zone; it contains {known}; give the catalog of the zone's region with --catalog"
    )]
    UnknownZone {
        /// The given zone.
        zone: String,
        /// The zones of the catalog.
        known: String,
    },
    /// Nodes are explained only with `--disruption`.
    #[error("--explain {node}: this is a node; add --disruption to explain whether and why it is disrupted")]
    ExplainNode {
        /// The node.
        node: String,
    },
    /// No pod has the name.
    #[error(
        "--explain {pod}: no pod has this name; give NAMESPACE/NAME, or with --disruption the name of a Node or NodeClaim"
    )]
    UnknownPod {
        /// The given name.
        pod: String,
    },
    /// Several pods have the name.
    #[error("--explain {pod}: several pods have this name; give one of {candidates}")]
    AmbiguousPod {
        /// The given name.
        pod: String,
        /// The pods, as `namespace/name`.
        candidates: String,
    },
    /// The plan cannot be serialized in the requested format.
    #[error("the plan cannot be written: {0}; choose another format with --output")]
    Form(String),
    /// A file that nodeless did not write has the path of the kubeconfig.
    #[error("{path} exists and was not written by an earlier local cluster; set another path with --kubeconfig")]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// The kubeconfig belongs to a running local cluster.
    #[error(
        "{path} belongs to a local cluster that still runs at {address}; end that cluster (Ctrl-C), or set another path with --kubeconfig"
    )]
    FileInUse {
        /// The file.
        path: PathBuf,
        /// The address of the API server of that cluster.
        address: SocketAddr,
    },
    /// A port could not be bound.
    #[error(
        "{flag} {port}: 127.0.0.1:{port} cannot be bound: {source}; choose another port, or leave {flag} out for a free one"
    )]
    Listen {
        /// The flag that names the port.
        flag: &'static str,
        /// The port; 0 for any.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
    /// Standard input or output is no terminal.
    #[cfg(feature = "kubernetes")]
    #[error("standard input and output are not a terminal that can be drawn on; use --once, --plain, -o json or --web")]
    NoTerminal,
    /// The terminal is too small.
    #[cfg(feature = "kubernetes")]
    #[error(
        "the terminal has {width} columns and {height} rows, and the view needs {columns} and {rows}; enlarge it, or use --once or --plain"
    )]
    SmallTerminal {
        /// Its columns.
        width: u16,
        /// Its rows.
        height: u16,
        /// The columns that are needed.
        columns: u16,
        /// The rows that are needed.
        rows: u16,
    },
    /// The terminal could not be read or drawn on.
    #[cfg(feature = "kubernetes")]
    #[error("the terminal cannot be used: {0}; use --once or --plain")]
    Terminal(#[source] std::io::Error),
    /// The handlers of the signals that end the process could not be installed.
    #[error("signal handlers cannot be installed: {0}; the operating system does not allow it")]
    Signals(#[source] std::io::Error),
    /// The embedded example is damaged.
    #[error("the built-in NodePool cannot be read: {0}; this is a bug in nodeless; please report it")]
    Example(String),
    /// The pattern of timestamps is invalid.
    #[error(
        "the timestamps of the simulated cluster cannot be converted: {0}; this is a bug in nodeless; please report it"
    )]
    Timestamps(#[source] regex::Error),
    /// The thread of the simulated cluster could not be started.
    #[error("no thread can be started: {0}; end other programs, or raise the limit of processes (ulimit -u)")]
    Thread(#[source] std::io::Error),
    /// The simulated cluster could not be created.
    #[error(transparent)]
    World(#[from] nodeless_world::WorldError),
    /// A scenario could not be read.
    #[error(
        "{path} cannot be read: {source}; name a scenario file, or a built-in scenario: canary, cluster-settings, day, faults, faults-all-features, schedules, spot, stateful or surge"
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
    /// The files contain no object that planning uses.
    #[error(
        "the input has no object that planning uses{}; give the output of `kubectl get nodes,pods,nodepools,ec2nodeclasses,nodeclaims,daemonsets -A -o yaml`, or manifests",
        if found.is_empty() { String::new() } else { format!(", only {found}") }
    )]
    NothingToPlan {
        /// The objects of other kinds, with their numbers.
        found: String,
    },
    /// The files contain no object.
    #[error("the input has no Kubernetes object; give manifests, or the output of `kubectl get ... -o yaml`")]
    NothingToConvert,
    /// Objects cannot be converted; the problems have been printed.
    #[error("nothing was written because of {}", crate::plural::counted(*problems, "error"))]
    NotConverted {
        /// The number of problems.
        problems: usize,
    },
    /// A file is not text.
    #[error("{path} is not UTF-8 text; give YAML or JSON")]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The command failed and has already printed why.
    #[error("")]
    AlreadyReported,
    /// The CustomResourceDefinitions could not be generated.
    #[error(transparent)]
    Crd(#[from] nodeless_api::crds::CrdError),
    /// The installation stopped.
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    Install(#[from] InstallError),
    /// No connection could be made with the kubeconfig.
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    Kubeconfig(#[from] nodeless_kubernetes::KubeconfigError),
    /// A request to the cluster failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl CliError {
    /// What to do next, for errors of adapters, whose messages do not report it because functions use them too.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        let error = match self {
            Self::Port(error) => error,
            #[cfg(feature = "kubernetes")]
            Self::Install(InstallError::Api(error)) => error,
            _ => return None,
        };
        match error.kind {
            ErrorKind::Unavailable => Some(
                "check with `kubectl cluster-info` that this kubeconfig and context reach the cluster from this machine; a private endpoint is reachable only from its VPC or through a VPN",
            ),
            ErrorKind::Denied => Some("use a kubeconfig whose user is bound to cluster-admin"),
            ErrorKind::Throttled => Some("try again in a minute"),
            ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Invalid => None,
        }
    }
}
