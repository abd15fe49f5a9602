//! The commitments of an account, as the API lists them.

use super::rates::{Rate, Rates};
use super::{plans, reserved};
use crate::model::{Commitments, Share};
use jiff::Timestamp;
use nodeless_model::listed_commitments::{AccountCommitments, ListedReservedInstances, ListedSavingsPlan};
use std::collections::BTreeMap;

/// A commitment has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id}: {why}")]
pub struct UnusableCommitment {
    /// The ID of the Savings Plan or of the Reserved Instances.
    pub id: String,
    /// What is wrong.
    pub why: String,
}

fn unusable(id: &str) -> impl Fn(String) -> UnusableCommitment {
    move |why| UnusableCommitment { id: id.to_owned(), why }
}

/// Whether the values of a Savings Plan can be used.
///
/// # Errors
/// If not.
pub fn check_plan(plan: &ListedSavingsPlan) -> Result<(), UnusableCommitment> {
    plans::check(plan).map_err(unusable(&plan.id))
}

/// Whether the values of Reserved Instances can be used.
///
/// # Errors
/// If not.
pub fn check_reserved(reserved: &ListedReservedInstances) -> Result<(), UnusableCommitment> {
    reserved::check(reserved).map_err(unusable(&reserved.id))
}

/// Whether a Savings Plan may cover instances of a region, at some time.
#[must_use]
pub fn may_apply(plan: &ListedSavingsPlan, region: &str) -> bool {
    plans::covers_instances(plan).is_ok() && plans::is_for(plan, region).is_ok()
}

/// The rates of Linux instances of shared tenancy that a Savings Plan may cover in a region, in dollars an hour, by instance type.
///
/// # Errors
/// If a rate is no number.
pub fn rates_by_type(
    plan: &ListedSavingsPlan,
    listed: &[Rate<'_>],
    region: &str,
) -> Result<BTreeMap<String, f64>, UnusableCommitment> {
    let mut rates = Rates::default();
    rates.add(listed, false).map_err(unusable(&plan.id))?;
    Ok(rates.by_instance_type(region, plans::family_of(plan)))
}

/// The commitments of an account that are in effect in its region at a time. The list is read from time to time, so the terms decide.
#[must_use]
pub fn of_account(account: &AccountCommitments, region: &str, at: Timestamp) -> Commitments {
    let of_plan = |(plan, rates): (&ListedSavingsPlan, Option<&BTreeMap<String, f64>>)| {
        plans::in_effect(plan, region, at).ok()?;
        Some(plans::with_rates(plan, rates?.clone(), Share::ALL))
    };
    let in_effect = |one: &&ListedReservedInstances| reserved::in_effect(one, region, at, false).is_ok();
    Commitments {
        reserved: account.reserved.iter().filter(in_effect).map(|one| reserved::committed(one, Share::ALL)).collect(),
        plans: account.plans().filter_map(of_plan).collect(),
        notes: Vec::new(),
    }
}
