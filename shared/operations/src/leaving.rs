//! Writing claims that leave by force, which do not count against the limits of their NodePool any more.
//!
//! What a NodePool is charged is one item of the claims table. Where hundreds of claims end at once, all of them
//! would have to write it; a drain does not wait for that. So where it is being written by others a claim is written alone, and
//! what it counts is given back with its next write.

use nodeless_lifecycle::charge_when_written;
use nodeless_model::NodeClaim;
use nodeless_model::claim::Charge;
use nodeless_ports::plans::Leaving;
use nodeless_ports::{Claims, PortError};

/// The code of a transaction that met another one.
const BUSY: &str = "TransactionConflict";

/// A claim that leaves, with what it is charged from now on.
pub(crate) fn charged(claim: &NodeClaim) -> Leaving {
    Leaving { claim: claim.clone(), charge: charge_when_written(claim, None) }
}

/// Whether what the NodePool is charged is being written by others.
pub(crate) fn is_busy(error: &PortError) -> bool {
    error.code == BUSY
}

/// Writes a claim, with what it is charged from now on. Gives the claim as it is then.
pub(crate) async fn write(
    claims: &dyn Claims,
    claim: &NodeClaim,
    charge: Option<&Charge>,
) -> Result<NodeClaim, PortError> {
    let charged = charge_when_written(claim, charge);
    let (version, charged) = match claims.update(claim, charged.as_ref()).await {
        Err(error) if is_busy(&error) && charged.as_ref() != charge => (claims.update(claim, None).await?, None),
        other => (other?, charged),
    };
    let mut written = NodeClaim { version, ..claim.clone() };
    written.spec.charge = charged.unwrap_or(written.spec.charge);
    Ok(written)
}
