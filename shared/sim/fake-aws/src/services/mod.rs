//! The other services that the functions call, as far as they use them.

pub(super) mod eks;
pub(super) mod iam;
pub(super) mod pricing;
pub(super) mod savings_plans;
pub(super) mod ssm;
pub(super) mod sts;
