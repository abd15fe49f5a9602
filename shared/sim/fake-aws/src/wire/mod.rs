//! The account over HTTP, as the AWS SDKs speak to it.

mod actions;
mod answer;
mod encode;
mod names;
pub(super) mod query;
mod router;
pub(super) mod xml;

pub use router::{aws_router, aws_router_with_clock};
pub(super) use router::{unknown_action, unknown_operation};

#[cfg(test)]
mod tests;
