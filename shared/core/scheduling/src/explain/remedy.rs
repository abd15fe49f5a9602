//! Changes that make a pod schedulable. Not every reason has a known remedy.

use crate::problem::reason::{Barrier, BarrierKind, Cause, LimitScope, PodFault, Reason};
use nodeless_model::DollarsPerHour;
use nodeless_model::cluster_limits::{MAX_DOLLARS_PER_HOUR, annotation_of};
use nodeless_model::money::quantity_of;
use nodeless_model::resources::format_quantity;

impl Reason {
    /// The change that would make the pod schedulable, as a message; `None` if only waiting helps.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Pod(fault) => fault.remedy(),
            Self::NoNodePools => Some("create a NodePool".to_owned()),
            Self::OutOfWork | Self::NotExplained => None,
            Self::NodePool { node_pool, cause } => cause.remedy(node_pool),
        }
    }
}

impl PodFault {
    fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::ResourceClaims { .. } => {
                "ask for the device as an extended resource of the pod's containers".to_owned()
            }
            Self::UnknownVolume { claim } => format!("create persistent volume claim {claim}, with a StorageClass"),
            Self::VolumesApart { .. } => "move the volumes to one zone, or mount them in separate pods".to_owned(),
            Self::Topology { constraints } => {
                let each: Vec<String> = constraints.iter().filter_map(Barrier::remedy).collect();
                return (!each.is_empty()).then(|| each.join("; or "));
            }
            Self::NoDomain { topology_key } => {
                format!("give nodes label {topology_key}: in a NodePool's template, with the values as a requirement")
            }
            Self::TooMany { excess, .. } => format!("reduce the {excess} to {} or fewer", excess.limit()),
            Self::TooManyDomains { .. } => {
                "use fewer labels, or labels with fewer values, in topology constraints".to_owned()
            }
            Self::MatchFields | Self::EmptyAffinity => "select nodes with matchExpressions".to_owned(),
            Self::Requirements { .. } => "correct the node selector or the node affinity".to_owned(),
            Self::NegativeRequest { resource } => format!("request {resource} of zero or more"),
        })
    }
}

impl Barrier {
    fn remedy(&self) -> Option<String> {
        let key = &self.topology_key;
        Some(match self.kind {
            BarrierKind::Spread { min_count, .. } => {
                let fewest = self.domains.iter().map(|(_, count)| *count).min()?;
                format!(
                    "raise maxSkew over {key} to {}, or free capacity in the domain with the fewest pods",
                    (fewest + 1).saturating_sub(min_count)
                )
            }
            BarrierKind::Affinity => format!("start a pod that its affinity over {key} selects"),
            BarrierKind::AntiAffinity if self.domains.is_empty() => return None,
            BarrierKind::AntiAffinity => {
                format!("add a domain of {key}, run fewer of these pods, or make the anti-affinity preferred")
            }
            BarrierKind::AntiAffinityOfOthers => {
                format!("add a domain of {key}, or change the anti-affinity of the pods that are there")
            }
        })
    }
}

impl Cause {
    fn remedy(&self, node_pool: &str) -> Option<String> {
        Some(match self {
            Self::NotReady { .. } => format!("make NodePool {node_pool} and its EC2NodeClass ready"),
            Self::Deleting => return None,
            Self::Static => format!("raise replicas of NodePool {node_pool}, or use one without replicas"),
            Self::NoInstanceTypes => format!("widen the requirements of NodePool {node_pool}"),
            Self::Taint(taint) => format!("add a toleration for {taint} to the pod"),
            Self::UndefinedLabel { key, .. } => {
                format!("define label {key} in the template of NodePool {node_pool}, or do not require it")
            }
            Self::Label { key, required, .. } => {
                format!("let NodePool {node_pool} allow {key} {required}, or do not require it of the pod")
            }
            Self::NoTypeMatches { .. } => "require labels that instance types of the region have together".to_owned(),
            Self::ResourceNotOffered { resource } => {
                format!("allow instance types with {resource} in NodePool {node_pool}, or do not request it")
            }
            Self::TooLarge { resource, largest, .. } => format!(
                "request at most {} of {resource}, or allow larger instance types in NodePool {node_pool}",
                format_quantity(resource, *largest)
            ),
            Self::NoTypeFits => {
                format!("request less of one resource, or allow larger instance types in NodePool {node_pool}")
            }
            Self::NoOffering { .. } => {
                format!(
                    "allow more zones, capacity types or instance types in NodePool {node_pool}; the launch is retried"
                )
            }
            Self::HostPort { port } => format!("use another host port than {port}"),
            Self::MinValues { key, found, .. } => {
                format!("lower minValues for {key} to {found} in NodePool {node_pool}, or let the policy be BestEffort")
            }
            Self::Limit { scope: LimitScope::Cluster, resource, used, smallest_node, .. } => {
                raised(annotation_of(resource), &format_quantity(resource, *used + *smallest_node))
            }
            Self::DollarLimit { scope: LimitScope::Cluster, used, min_charge, .. } => {
                raised(MAX_DOLLARS_PER_HOUR, &quantity_of(used + min_charge))
            }
            Self::Limit { resource, used, smallest_node, .. } => format!(
                "raise limit {resource} of NodePool {node_pool} to {} or more",
                format_quantity(resource, *used + *smallest_node)
            ),
            Self::DollarLimit { used, min_charge, .. } => {
                format!("raise the limit of NodePool {node_pool} to {} or more", DollarsPerHour(used + min_charge))
            }
            Self::Limits => format!("raise the limits of NodePool {node_pool}"),
        })
    }
}

/// Raises a limit of the cluster.
fn raised(annotation: &str, amount: &str) -> String {
    format!("raise the annotation {annotation} of the Namespace kube-system to {amount} or more")
}
