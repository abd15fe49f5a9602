//! Kinds of actions: what they write, and whether they decide.

use crate::action::Action;
use nodeless_model::NodeClaim;

/// Whether no other action of a batch writes the item of the table, or the status, that this one writes.
pub(super) const fn writes_own_item(action: &Action) -> bool {
    matches!(
        action,
        Action::UpdateClaim(_)
            | Action::ChangeClaim(_)
            | Action::BeginPlan(_)
            | Action::Record(_)
            | Action::PutRecord(..)
            | Action::WriteNodeOverlayStatus(..)
            | Action::WriteNodePoolStatus(..)
            | Action::WriteCapacityBufferStatus(..)
            | Action::WriteProvisioningRequestStatus(..)
            | Action::Log(_)
    )
}

/// Whether an action launches, disrupts or terminates nodes, or may lead to that. What other actions write only describes what was read,
/// and is written again by the next plan.
pub(super) const fn decides(action: &Action) -> bool {
    match action {
        Action::UpdateClaim(_)
        | Action::ChangeClaim(_)
        | Action::RetireClaim(_)
        | Action::CreateGroup(..)
        | Action::StartClaim(..)
        | Action::CreateReplacement(..)
        | Action::PutCommand(_)
        | Action::DeleteCommand(..) => true,
        Action::BeginPlan(_)
        | Action::EndPlan(_)
        | Action::WriteNodeOverlayStatus(..)
        | Action::WriteNodePoolStatus(..)
        | Action::WriteCapacityBufferStatus(..)
        | Action::WriteProvisioningRequestStatus(..)
        | Action::PutRecord(..)
        | Action::ReadWork
        | Action::ReadChurn
        | Action::PutNotYetEvaluated(..)
        | Action::ReadCosts
        | Action::PutCosts(..)
        | Action::NoteCosts(_)
        | Action::Record(_)
        | Action::WakeClaims(_)
        | Action::WakePlanner
        | Action::Log(_) => false,
    }
}

/// The claim that an action terminates.
pub(super) fn retired(action: &Action) -> Option<&NodeClaim> {
    if let Action::RetireClaim(claim) = action { Some(claim) } else { None }
}
