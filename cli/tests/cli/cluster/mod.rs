//! Commands that use a cluster.

#[cfg(unix)]
pub(crate) mod export_command;
pub(crate) mod install;
pub(crate) mod kubeconfig;
#[cfg(all(unix, feature = "kubernetes"))]
pub(crate) mod metrics;
#[cfg(all(unix, feature = "kubernetes"))]
pub(crate) mod page_sizes;
#[cfg(all(unix, feature = "kubernetes"))]
pub(crate) mod upgrade;
#[cfg(all(unix, feature = "kubernetes"))]
pub(crate) mod view;
#[cfg(all(unix, feature = "kubernetes"))]
pub(crate) mod view_web;
