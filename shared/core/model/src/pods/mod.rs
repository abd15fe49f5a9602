//! Pods, with what creates, selects and repels them.

pub mod buffer;
pub mod label_query;
pub mod pod;
pub(crate) mod pod_origin;
pub(crate) mod pod_ref;
pub mod provisioning_request;
pub mod quota;
pub mod selector;
pub mod shared_templates;
pub mod surge;
pub mod taint;
pub mod virtual_pod;
pub mod workload;
pub(crate) mod workload_name;
