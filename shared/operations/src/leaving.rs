//! Writes claims that are terminated forcefully, which no longer count against the limits of their NodePool.
//!
//! The usage of a NodePool is one item of the claims table. If hundreds of claims ended at once, all of them would have to write
//! that item, and a drain must not wait for it. So if other processes are writing the item, only the claim is written, and its
//! charge is released with its next write.

use nodeless_lifecycle::charge_when_written;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_ports::PortError;
use nodeless_state::State;
use nodeless_state::plans::Leaving;

/// The error code of a transaction that conflicts with another one.
const BUSY: &str = "TransactionConflict";

/// A terminating claim and its charge from now on.
pub fn charged(claim: &NodeClaim) -> Leaving {
    Leaving { claim: claim.clone(), charge: charge_when_written(claim, None) }
}

/// Whether other processes are writing the usage of the NodePool.
pub fn is_busy(error: &PortError) -> bool {
    error.code == BUSY
}

/// Writes a claim and its new charge. Returns the claim as written.
pub async fn write(claims: &State, claim: &NodeClaim, charge: Option<&Charge>) -> Result<NodeClaim, PortError> {
    let charged = charge_when_written(claim, charge);
    let (version, charged) = match claims.update(claim, charged.as_ref()).await {
        Err(error) if is_busy(&error) && charged.as_ref() != charge => (claims.update(claim, None).await?, None),
        other => (other?, charged),
    };
    let mut written = NodeClaim { version, ..claim.clone() };
    written.spec.charge = charged.unwrap_or(written.spec.charge);
    Ok(written)
}
