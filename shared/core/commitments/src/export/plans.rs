//! Savings Plans, as AWS lists them.

use crate::model::{SavingsPlan, Share};
use jiff::Timestamp;
use nodeless_model::listed_commitments::ListedSavingsPlan;
use std::collections::BTreeMap;

/// The states in which a plan is in effect between its start and its end. A queued plan becomes active at its start, an active one is
/// retired at its end, and one whose return is pending is still active.
const BY_TIME: [&str; 4] = ["active", "queued", "retired", "pending-return"];

/// The instance family of an EC2 Instance Savings Plan.
pub(super) fn family_of(plan: &ListedSavingsPlan) -> Option<&str> {
    plan.family.as_deref().filter(|_| plan.savings_plan_type == "EC2Instance")
}

fn dollars_per_hour(plan: &ListedSavingsPlan) -> Option<f64> {
    plan.commitment.parse().ok().filter(|dollars: &f64| dollars.is_finite() && *dollars >= 0.0)
}

/// Whether the values of a plan can be used.
pub(super) fn check(plan: &ListedSavingsPlan) -> Result<(), String> {
    if dollars_per_hour(plan).is_none() {
        return Err(format!("its commitment {:?} is no number of dollars", plan.commitment));
    }
    let is_of_family = plan.savings_plan_type == "EC2Instance";
    if is_of_family && (plan.family.is_none() || plan.region.is_none()) {
        return Err("it is an EC2 Instance Savings Plan without ec2InstanceFamily and region".to_owned());
    }
    Ok(())
}

/// Whether a plan counts for a region at a time, or why not.
pub(super) fn in_effect(plan: &ListedSavingsPlan, region: &str, at: Timestamp) -> Result<(), String> {
    covers_instances(plan)?;
    if !BY_TIME.contains(&plan.state.as_str()) {
        return Err(format!("its state is {}", plan.state));
    }
    within(plan.start, plan.end, at)?;
    is_for(plan, region)
}

/// Whether a plan covers EC2 instances, or why not.
pub(super) fn covers_instances(plan: &ListedSavingsPlan) -> Result<(), String> {
    match plan.savings_plan_type.as_str() {
        "EC2Instance" | "Compute" => Ok(()),
        kind => Err(format!("it is a {kind} Savings Plan, which does not cover EC2 instances")),
    }
}

/// Whether a plan that covers instances may do so in a region with prices in dollars, or why not.
pub(super) fn is_for(plan: &ListedSavingsPlan, region: &str) -> Result<(), String> {
    if plan.currency != "USD" {
        return Err(format!("its currency is {}, and prices are in USD", plan.currency));
    }
    match &plan.region {
        Some(other) if plan.savings_plan_type == "EC2Instance" && other != region => {
            Err(format!("it is of region {other}"))
        }
        _ => Ok(()),
    }
}

/// A plan with its rates.
pub(super) fn with_rates(plan: &ListedSavingsPlan, rates: BTreeMap<String, f64>, share: Share) -> SavingsPlan {
    SavingsPlan {
        id: plan.id.clone(),
        family: family_of(plan).map(str::to_owned),
        dollars_per_hour: dollars_per_hour(plan).unwrap_or_default() * share.of_one(),
        rates,
    }
}

/// Whether a time is in a term, or why not.
pub(super) fn within(start: Timestamp, end: Timestamp, at: Timestamp) -> Result<(), String> {
    if at < start {
        return Err(format!("it starts at {start}"));
    }
    if at >= end {
        return Err(format!("it ended at {end}"));
    }
    Ok(())
}
