//! The claims table and the queues, on DynamoDB Local and moto.
#![allow(clippy::unwrap_used)]

mod common;
mod dynamodb;
mod limits;
mod records;
mod semantics;
mod sqs;
