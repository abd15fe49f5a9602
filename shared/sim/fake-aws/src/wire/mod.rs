//! The account over HTTP, as the AWS SDKs speak to it.

mod actions;
mod answer;
mod encode;
mod names;
mod router;
mod xml;

pub use router::{aws_router, aws_router_with_clock};

#[cfg(test)]
mod tests;
