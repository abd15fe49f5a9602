//! The errors of the commands.

mod advice;

use crate::origin::Origin;
use jiff::Timestamp;
#[cfg(feature = "kubernetes")]
use nodeless_kubernetes::install::InstallError;
use nodeless_planner::SavedError;
use nodeless_ports::PortError;
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
    /// Standard input has no items of the claims table, or is a terminal, which would be waited for.
    #[error(
        "standard input has no records; give --cluster NAME, or the output of `aws dynamodb query ... --output json`"
    )]
    NoRecords,
    /// A file does not contain items of the claims table.
    #[error("{path}: {why}; give the output of `aws dynamodb query ... --output json` without --query")]
    Items {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// An item of the claims table is of another kind than the command reads.
    #[error("{origin}: item {item}: {why}; leave it out of the output of `aws dynamodb query`")]
    OtherItem {
        /// The file or the table.
        origin: Origin,
        /// The sort key of the item.
        item: String,
        /// What is expected.
        why: String,
    },
    /// An item of the claims table does not have the form that this version writes.
    #[error("{origin}: item {item}: {why}; another version of nodeless may have written it: use that version")]
    Record {
        /// The file or the table.
        origin: Origin,
        /// The sort key of the item.
        item: String,
        /// What cannot be read.
        why: String,
    },
    /// A file is not a snapshot of a plan.
    #[error("{path}: {source}{}", if matches!(source, SavedError::Json(_)) { SNAPSHOTS } else { "" })]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SavedError,
    },
    /// A symbolic link in a folder leads out of it.
    #[error("{path} is a symbolic link that leaves {folder}; put the file into the folder, or give its own path")]
    LinkOutside {
        /// The link.
        path: PathBuf,
        /// The folder that was given.
        folder: PathBuf,
    },
    /// A folder has templates or overlays and no manifests.
    #[error("{path} is a {what}, which has to be rendered: give the output of `{command} {path}`")]
    Unrendered {
        /// The folder.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// The command that renders it.
        command: &'static str,
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
    /// A file is not JSON.
    #[error("{path}: {source}; give {expected}")]
    NotJson {
        /// The file.
        path: PathBuf,
        /// Why.
        source: nodeless_catalog::file::CatalogFileError,
        /// What the command reads.
        expected: &'static str,
    },
    /// There are no embedded facts of the region.
    #[error(transparent)]
    Region(nodeless_catalog::facts::RegionError),
    /// A result cannot be serialized as JSON.
    #[error("the result cannot be written as JSON: {0}; this is a bug in nodeless; please report it")]
    Json(#[source] serde_json::Error),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Print(#[source] std::io::Error),
    /// The claims table could not be read.
    #[cfg(feature = "aws")]
    #[error("the table {table} cannot be read: {error}")]
    Table {
        /// The name of the table.
        table: String,
        /// Why.
        error: PortError,
    },
    /// A local cluster does not answer as one.
    #[error(
        "{kubeconfig} is the kubeconfig of the local cluster {name} with AWS APIs at {address}, which cannot be read: {why}; start it again with `nodeless local`, or remove the file if the cluster has ended"
    )]
    LocalCluster {
        /// The name of the cluster.
        name: String,
        /// Its kubeconfig.
        kubeconfig: PathBuf,
        /// The address of its AWS APIs.
        address: SocketAddr,
        /// Why.
        why: String,
    },
    /// No local cluster has the name.
    #[error(
        "no local cluster {name}: no kubeconfig of $KUBECONFIG or in this directory is that of a local cluster with this name in which nodeless runs; set KUBECONFIG as `nodeless local` prints it, start one with `nodeless local{}`, or {otherwise}",
        if name == "local" { String::new() } else { format!(" --cluster-name {name}") }
    )]
    NoLocalCluster {
        /// The given name.
        name: String,
        /// What to do for a cluster in AWS.
        otherwise: &'static str,
    },
    /// The command needs the AWS SDK, and this build does not include it.
    #[cfg(not(feature = "aws"))]
    #[error(
        "{what} is read with the AWS SDK, which this build does not include; use a released binary, or build with `cargo build --release -p nodeless --features aws` (takes some minutes); {local}"
    )]
    WithoutAws {
        /// What the command reads.
        what: String,
        /// How to read a local cluster.
        local: String,
    },
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
        /// The key of the item.
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
        "{flag} {port}: 127.0.0.1:{port} cannot be bound: {source}; choose another port, or {} for a free one",
        advice::without_port(flag)
    )]
    Listen {
        /// The flag that names the port.
        flag: &'static str,
        /// The port; 0 for any.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
    /// An address could not be bound.
    #[cfg(feature = "kubernetes")]
    #[error(
        "--address {} --port {}: {address} cannot be bound: {source}; choose another port, --port 0 for a free one, or an address of this machine",
        address.ip(),
        address.port()
    )]
    ListenAt {
        /// The address.
        address: SocketAddr,
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
        /// The columns of the terminal.
        width: u16,
        /// The rows of the terminal.
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
    #[error("{path}: {source}")]
    ScenarioForm {
        /// The file, or the name of a built-in scenario.
        path: PathBuf,
        /// Why.
        source: nodeless_driver::scenarios::ScenarioError,
    },
    /// A run failed.
    #[error(transparent)]
    Simulation(#[from] nodeless_driver::simulation::SimulationError),
    /// The files contain no object that planning uses.
    #[error(
        "no object that planning uses in {input}{}; give manifests, or an export of the cluster as in `nodeless plan --help`",
        if found.is_empty() { String::new() } else { format!(", only {found}") }
    )]
    NothingToPlan {
        /// The files.
        input: String,
        /// The objects of other kinds, with their numbers.
        found: String,
    },
    /// The manifests of an alternative cannot be used.
    #[error("--if {path}: {why}; give NodePools, EC2NodeClasses, PodDisruptionBudgets or workloads")]
    Alternative {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The settings of the scheduler cannot be used.
    #[error("--scheduler-config {path}: {why}; docs/settings.md has an example")]
    SchedulerConfig {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The manifests of a comparison cannot be used.
    #[error("--diff {path}: {why}")]
    Compared {
        /// The file or folder.
        path: PathBuf,
        /// Why, and what to give.
        why: String,
    },
    /// Objects cannot be read, so that nothing is compared; the problems have been printed.
    #[error("nothing is compared because of {}; give whole manifests, and rendered ones of a chart (`helm template`, `kubectl kustomize`)", crate::plural::counted(*problems, "error"))]
    NotCompared {
        /// The number of problems.
        problems: usize,
    },
    /// The output format is that of a comparison.
    #[error("-o markdown is a format of --diff; choose text, json or yaml")]
    OnlyOfDiff,
    /// The files contain no object.
    #[error("no Kubernetes object in {input}; give manifests, or the output of `kubectl get ... -o yaml`")]
    NothingToConvert {
        /// The files.
        input: String,
    },
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
    /// The exports of commitments cannot be used.
    #[error(transparent)]
    Commitments(#[from] nodeless_commitments::ExportError),
    /// The exports of capacity reservations cannot be used.
    #[error(transparent)]
    Reservations(#[from] nodeless_launch::node_class::exported_reservations::ReservationExportError),
    /// The CustomResourceDefinitions could not be generated.
    #[error(transparent)]
    Crd(#[from] nodeless_api::crds::CrdError),
    /// The installation stopped.
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    Install(#[from] InstallError),
    /// An upgrade changes the functions, which only Terraform does.
    #[cfg(feature = "kubernetes")]
    #[error(
        "nodeless is upgraded with Terraform: set the functions and the module of the new version and run `terraform apply` ({}); `nodeless upgrade --check` compares a cluster with this command",
        concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/install/upgrade.md")
    )]
    UpgradeWithTerraform,
    /// Objects of nodeless may not be read.
    #[cfg(feature = "kubernetes")]
    #[error(
        "{unread} {} cannot be read; use a kubeconfig whose user may get customresourcedefinitions, clusterroles, clusterrolebindings and validatingwebhookconfigurations",
        if *unread == 1 { "object" } else { "objects" }
    )]
    UnreadObjects {
        /// The number of objects.
        unread: usize,
    },
    /// The version of this command is none.
    #[cfg(feature = "kubernetes")]
    #[error("the version of this command cannot be compared: {0}; this is a bug in nodeless; please report it")]
    OwnVersion(#[source] semver::Error),
    /// No connection could be made with the kubeconfig.
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    Kubeconfig(#[from] nodeless_kubernetes::KubeconfigError),
    /// There is no kubeconfig for a plan, which needs none for files.
    #[cfg(feature = "kubernetes")]
    #[error(
        "{0}; or plan for files with --cluster FILE, or for a simulated cluster that `nodeless local` starts on this machine"
    )]
    NoCluster(nodeless_kubernetes::KubeconfigError),
    /// A request to the cluster failed.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// What to give instead of a file that is no snapshot.
const SNAPSHOTS: &str =
    "; give a snapshot, or the output of `aws dynamodb query ... --output json` for the items snapshot#";

impl CliError {
    /// The error for a cluster that is not a local one, where the records of clusters in AWS cannot be read.
    #[cfg(not(feature = "aws"))]
    pub(crate) fn without_aws_for(cluster: &str) -> Self {
        let local = "a local cluster with this name is found by its kubeconfig: start `nodeless local`, or set KUBECONFIG as it prints";
        Self::WithoutAws { what: format!("the table of cluster {cluster}"), local: local.to_owned() }
    }

    /// This error of a command that can also read files.
    pub(crate) fn or_without_cluster(self) -> Self {
        match self {
            #[cfg(feature = "kubernetes")]
            Self::Kubeconfig(missing @ nodeless_kubernetes::KubeconfigError::Missing(_)) => Self::NoCluster(missing),
            other => other,
        }
    }

    /// Advice for errors of adapters. Their messages contain none, because functions use them too.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Port(error) if error.operation.starts_with(advice::KUBERNETES) => {
                advice::kubernetes(error.kind, advice::LIST)
            }
            Self::Port(error) => advice::aws(error.kind),
            #[cfg(feature = "aws")]
            Self::Table { error, .. } => advice::table(error.kind),
            #[cfg(feature = "kubernetes")]
            Self::Install(InstallError::Api(error)) => advice::kubernetes(error.kind, advice::INSTALL),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_ports::ErrorKind;

    fn port(operation: &str, kind: ErrorKind) -> PortError {
        PortError::new(kind, operation, "no")
    }

    #[test]
    fn advice_is_about_the_service_and_the_command() {
        let advice = |operation: &str, kind| CliError::from(port(operation, kind)).advice().unwrap_or_default();
        assert!(advice("Kubernetes list Pod", ErrorKind::Unavailable).contains("kubectl cluster-info"));
        let denied = advice("Kubernetes list Pod", ErrorKind::Denied);
        assert!(denied.contains("get, list and watch") && !denied.contains("cluster-admin"), "{denied}");
        for kind in [ErrorKind::Unavailable, ErrorKind::Denied] {
            let advice = advice("EC2 DescribeInstanceTypes", kind);
            assert!(advice.contains("aws sts get-caller-identity") && !advice.contains("kube"), "{advice}");
        }
        assert_eq!(advice("EC2 DescribeInstanceTypes", ErrorKind::Invalid), "");
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn an_installation_needs_cluster_admin() {
        let error = CliError::from(InstallError::Api(port("Kubernetes create ClusterRole", ErrorKind::Denied)));
        assert!(error.advice().unwrap().contains("cluster-admin"));
    }

    #[cfg(feature = "aws")]
    #[test]
    fn a_table_with_an_unknown_item_needs_no_other_credentials() {
        let of = |kind| CliError::Table { table: "t".to_owned(), error: port("DynamoDB Query", kind) }.advice();
        assert_eq!(of(ErrorKind::Invalid), None);
        assert!(of(ErrorKind::Denied).unwrap().contains("dynamodb:Query"));
    }

    #[test]
    fn a_free_port_is_named_as_its_flag_allows() {
        let of = |flag| CliError::Listen { flag, port: 80, source: std::io::ErrorKind::AddrInUse.into() }.to_string();
        assert!(of("--port").ends_with("choose another port, or leave --port out for a free one"));
        assert!(of("--web").ends_with("choose another port, or give --web without a number for a free one"));
    }
}
