//! What to do about errors of services.

use nodeless_ports::ErrorKind;

/// How to request any free port with a flag that names a port.
pub(super) fn without_port(flag: &str) -> String {
    // Without `--web`, there is no view at all.
    if flag == "--web" { format!("give {flag} without a number") } else { format!("leave {flag} out") }
}

/// The beginning of the operations of the Kubernetes API. All others are those of AWS.
pub(super) const KUBERNETES: &str = "Kubernetes ";

/// What to do if a command that only reads is denied.
pub(super) const LIST: &str = "use a kubeconfig whose user may get, list and watch this kind in all namespaces; check it with `kubectl auth can-i list KIND -A`";

/// What to do if the installation is denied.
#[cfg(feature = "kubernetes")]
pub(super) const INSTALL: &str = "use a kubeconfig whose user is bound to cluster-admin";

pub(super) fn kubernetes(kind: ErrorKind, denied: &'static str) -> Option<&'static str> {
    match kind {
        ErrorKind::Unavailable => Some(
            "check with `kubectl cluster-info` that this kubeconfig and context reach the cluster from this machine; a private endpoint is reachable only from its VPC or through a VPN",
        ),
        ErrorKind::Denied => Some(denied),
        ErrorKind::Throttled => Some("try again in a minute"),
        ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Invalid => None,
    }
}

#[cfg(feature = "aws")]
pub(super) fn table(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        // An item was read, and this version does not know its form.
        ErrorKind::Invalid | ErrorKind::Conflict => None,
        ErrorKind::Throttled => Some("try again in a minute"),
        ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::NotFound => Some(
            "check the region and the credentials of the environment, the right dynamodb:Query, and the name of the table (--table; Terraform's output table_name). A local cluster is found by its kubeconfig: start `nodeless local`, or set KUBECONFIG as it prints",
        ),
    }
}

pub(super) fn aws(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unavailable => Some(
            "check with `aws sts get-caller-identity` that the credentials and the region of the environment are set and AWS is reachable from this machine",
        ),
        ErrorKind::Denied => Some(
            "check with `aws sts get-caller-identity` whose credentials the environment has; their policies must allow this action",
        ),
        ErrorKind::Throttled => Some("try again in a minute"),
        ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Invalid => None,
    }
}
