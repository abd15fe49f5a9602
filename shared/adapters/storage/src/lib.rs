//! The claims table in DynamoDB and the queues in SQS: the [`Table`](nodeless_ports::Table) and [`Queue`](nodeless_ports::Queue) ports
//! in AWS. What the table contains is described in `nodeless-state`.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod expressions;
mod items;
mod queue;
mod table;
mod transactions;

pub use queue::SqsQueue;
pub use table::DynamoTable;
