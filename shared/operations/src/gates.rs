//! Feature gates, as Karpenter writes them: `NodeRepair=true,SpotToSpotConsolidation=false`. Those of `FEATURE_GATES` and of
//! `AWS_FEATURE_GATES` have no name in common, and are one list here.

use nodeless_model::labels::TERMINATE_FIRST;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The features that Karpenter disables by default behind a feature gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGates {
    /// `NodeRepair`: nodes that have been unhealthy for too long are replaced.
    pub node_repair: bool,
    /// `RebootForRepair`: node repair reboots nodes with some faults of GPUs before it replaces them.
    pub reboot_for_repair: bool,
    /// `SpotToSpotConsolidation`: spot nodes may be replaced by cheaper spot nodes.
    pub spot_to_spot_consolidation: bool,
}

/// Why a text is not a list of feature gates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureGatesError {
    /// The text is not `NAME=true` or `NAME=false`.
    #[error("{0:?} is not a feature gate; write NAME=true or NAME=false, several separated by commas")]
    Form(String),
    /// There is no feature gate with this name.
    #[error("there is no feature gate {0}; there are NodeRepair, RebootForRepair and SpotToSpotConsolidation")]
    Unknown(String),
    /// NodePools ask for the feature by an annotation.
    #[error(
        "the feature gate {0} of Karpenter cannot be true: set the annotation {TERMINATE_FIRST}: {1} on the NodePools that it is for"
    )]
    ByNodePool(&'static str, &'static str),
    /// nodeless does not have the feature.
    #[error("the feature gate {0} of Karpenter cannot be true: nodeless does not have the feature")]
    Unsupported(String),
}

/// Feature gates of Karpenter whose features are part of nodeless, whatever their value. Objects specify whether they are used.
const ALWAYS_ON: [&str; 7] =
    ["CapacityBuffer", "DRAEFA", "DRANVIDIAGPU", "NodeClassCEL", "NodeOverlay", "ReservedCapacity", "StaticCapacity"];

/// A feature gate of Karpenter, off by default, whose feature nodeless does not have: in simulated runs it saved less than 1% of evictions
/// (`shared/sim/driver/examples/deletion_cost.rs`).
const UNSUPPORTED: &str = "PodDeletionCostManagement";

/// Feature gates of Karpenter, off by default, whose features each NodePool asks for, with the value of its annotation.
const BY_NODE_POOL: [(&str, &str); 2] = [("TerminateFirstDrift", "drift"), ("TerminateFirstRepair", "repair")];

impl FromStr for FeatureGates {
    type Err = FeatureGatesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut gates = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let form = || FeatureGatesError::Form(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(form)?;
            let on = value.parse::<bool>().map_err(|_| form())?;
            match name {
                "NodeRepair" => gates.node_repair = on,
                "RebootForRepair" => gates.reboot_for_repair = on,
                "SpotToSpotConsolidation" => gates.spot_to_spot_consolidation = on,
                name if ALWAYS_ON.contains(&name) => {}
                UNSUPPORTED if on => return Err(FeatureGatesError::Unsupported(name.to_owned())),
                UNSUPPORTED => {}
                name => match BY_NODE_POOL.iter().find(|(gate, _)| *gate == name) {
                    Some(&(gate, value)) if on => return Err(FeatureGatesError::ByNodePool(gate, value)),
                    Some(_) => {}
                    None => return Err(FeatureGatesError::Unknown(name.to_owned())),
                },
            }
        }
        Ok(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_gates_as_karpenter_writes_them() {
        assert_eq!("".parse(), Ok(FeatureGates::default()));
        let all = FeatureGates { node_repair: true, reboot_for_repair: true, spot_to_spot_consolidation: true };
        let text =
            "NodeRepair=true, SpotToSpotConsolidation=true,StaticCapacity=true,RebootForRepair=true,NodeClassCEL=false";
        assert_eq!(text.parse(), Ok(all));
        assert_eq!("NodeRepair=true,NodeRepair=false".parse(), Ok(FeatureGates::default()), "the last one counts");
        // As the chart of Karpenter 1.15 sets them without values of the user.
        let chart = "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,StaticCapacity=false,\
                     CapacityBuffer=false,TerminateFirstDrift=false,TerminateFirstRepair=false,PodDeletionCostManagement=false";
        assert_eq!(chart.parse(), Ok(FeatureGates::default()));
        for (text, expected) in [
            ("NodeRepair", "\"NodeRepair\" is not a feature gate"),
            ("NodeRepair=yes", "\"NodeRepair=yes\" is not a feature gate"),
            ("Noderepair=true", "no feature gate Noderepair"),
            (
                "PodDeletionCostManagement=true",
                "PodDeletionCostManagement of Karpenter cannot be true: nodeless does not",
            ),
            ("TerminateFirstRepair=true", "set the annotation nodeless.sh/terminate-first: repair on the NodePools"),
            ("TerminateFirstDrift=true", "set the annotation nodeless.sh/terminate-first: drift on the NodePools"),
        ] {
            let error = text.parse::<FeatureGates>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
