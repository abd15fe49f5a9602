//! The services beside EC2 that the functions call: as much of each as they use.

pub(super) mod eks;
pub(super) mod iam;
pub(super) mod pricing;
pub(super) mod ssm;
pub(super) mod sts;
