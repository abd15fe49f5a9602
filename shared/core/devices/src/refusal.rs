//! Why claims get no devices.

use crate::selector::{CompileError, EvaluationError};
use std::fmt;

/// Why claims of a pod get no devices on a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such DeviceClass.
    #[error("ResourceClaim {claim}, request {request}: there is no DeviceClass {class}")]
    NoClass {
        /// The claim.
        claim: String,
        /// The request.
        request: String,
        /// The missing class.
        class: String,
    },
    /// A selector cannot be compiled.
    #[error("{selector} cannot be evaluated: {error}")]
    Selector {
        /// Which selector.
        selector: SelectorName,
        /// Why.
        error: CompileError,
    },
    /// A selector failed for a device. The kube-scheduler then schedules the pod on no node.
    #[error("{selector} fails for device {device}: {error}")]
    Evaluation {
        /// Which selector.
        selector: SelectorName,
        /// For which device, `driver/pool/name`.
        device: String,
        /// Why.
        error: EvaluationError,
    },
    /// A selector or a constraint needs what is not known before the driver publishes the device.
    #[error("{by} needs {what} of driver {driver}, which is not known before the driver publishes the device")]
    NotPublished {
        /// What needs it.
        by: String,
        /// The attribute or capacity.
        what: String,
        /// The driver.
        driver: String,
    },
    /// The claim uses what is not supported.
    #[error("ResourceClaim {claim}, request {request}: {what} is not supported")]
    Unsupported {
        /// The claim.
        claim: String,
        /// The request, or the constraint.
        request: String,
        /// What.
        what: String,
    },
    /// All devices are requested, and a pool is incomplete.
    #[error("ResourceClaim {claim}, request {request}: all devices are requested, and pool {pool} is being updated")]
    Incomplete {
        /// The claim.
        claim: String,
        /// The request.
        request: String,
        /// The pool, `driver/name`.
        pool: String,
    },
    /// A pool is invalid: all devices are requested, or no other pool has devices.
    #[error("ResourceClaim {claim}: pool {pool} is invalid: {why}")]
    InvalidPool {
        /// The claim.
        claim: String,
        /// The pool, `driver/name`.
        pool: String,
        /// Why.
        why: String,
    },
    /// All devices are requested, and a constraint excludes one of them.
    #[error(
        "ResourceClaim {claim}, request {request}: a constraint of the claim excludes device {device}, and all devices are requested"
    )]
    Excluded {
        /// The claim.
        claim: String,
        /// The request.
        request: String,
        /// The device, `driver/pool/name`.
        device: String,
    },
    /// A claim has more devices than an allocation may list.
    #[error("ResourceClaim {claim} requests {count} devices, more than the {limit} that a claim may have")]
    TooManyDevices {
        /// The claim.
        claim: String,
        /// How many it requests at least.
        count: usize,
        /// How many it may have.
        limit: usize,
    },
    /// There are not enough free devices.
    #[error(
        "ResourceClaim {claim}, request {request}: no free device meets the request and the constraints of the claim"
    )]
    NoDevice {
        /// The claim.
        claim: String,
        /// The request that found no device.
        request: String,
    },
    /// The node selector of a ResourceSlice is invalid.
    #[error("the node selector of a ResourceSlice is invalid: {message}")]
    NodeSelector {
        /// Why.
        message: String,
    },
    /// Pods with other claims compete for the devices, so that the node counts for these only.
    #[error("ResourceClaim {claim}: the devices that it selects are planned for pods with other claims")]
    Competes {
        /// The claim.
        claim: String,
    },
    /// The search for devices took too long.
    #[error("no devices were found within {limit} attempts; use fewer requests, or requests that select fewer devices")]
    TooManyAttempts {
        /// The limit.
        limit: u64,
    },
}

/// Which selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorName {
    /// A selector of a DeviceClass, by its index.
    Class(String, usize),
    /// A selector of a request, by its index.
    Request {
        /// The claim.
        claim: String,
        /// The request.
        request: String,
        /// The index.
        index: usize,
    },
}

impl fmt::Display for SelectorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(class, index) => write!(f, "selector {index} of DeviceClass {class}"),
            Self::Request { claim, request, index } => {
                write!(f, "selector {index} of ResourceClaim {claim}, request {request}")
            }
        }
    }
}
