//! The claims table in DynamoDB and the queues in SQS: the [`State`](nodeless_ports::State) and
//! [`Queue`](nodeless_ports::Queue) ports in AWS.
//!
//! # The table
//!
//! One table for any number of clusters: `pk` is the cluster's name, `sk` is the kind and name of the item. The claims, which are
//! many, are spread over the keys `CLUSTER#0` to `CLUSTER#7` by their names, because DynamoDB reads at most 3,000 units a second
//! under one partition key. Every item that several processes may write has a condition on its write. `expires` is the TTL
//! attribute, in seconds since 1970.
//!
//! | `sk` | attributes |
//! |---|---|
//! | `nodeclaim#NAME` | `record` (deflated JSON), `version`, `uid`; `nodePool` and `phase` for people; `instanceId` once launched (index `instance`, keys alone) |
//! | `launchgroup#ID` | `record` (deflated JSON: its claims, and the claim of each instance), `version`, `expires`; for groups of several |
//! | `shard#NUMBER` | `record` (deflated JSON: the claims that are reconciled together, and when each is due), `version` |
//! | `nodepool#NAME` | `r:RESOURCE` in thousandths, `microdollars` per hour, `recounted`, `revision` |
//! | `unavailable#TYPE#ZONE#CAPACITY` | `until`, `reason`, `expires` |
//! | `interrupted#TYPE#ZONE#INSTANCE` | `at`, `until`, `expires`: an interruption of a spot instance |
//! | `budget#TYPE#ZONE#CAPACITY` | `size`, `until`, `expires` |
//! | `catalog#current` | `catalogVersion`, `chunks` |
//! | `catalog#VERSION#NNN` | `chunk` (bytes), `expires` once superseded |
//! | `command#ID` | `encoded` (bytes), `version`, `summary` for people |
//! | `churn#NODEPOOL` | `record` (JSON), `version`, `expires` |
//! | `registrations#NODEPOOL` | `record` (JSON), `version`, `expires` |
//! | `memory` | `record` (JSON: memory that nodes reported, by image and instance type), `version`, `expires` |
//! | `not-yet-evaluated` | `record` (deflated JSON: names of nodes), `expires` |
//! | `plan` | `record` (JSON: a plan that was begun and has not ended), `id`, `expires` |
//! | `snapshot#ID#NNN` | `chunk` (bytes), `expires`; only where an operator asks for it |
//! | `decision#ID` | `record` (JSON), `expires` |
//! | `cost#open` | `record` (deflated JSON: what nodes cost in the hour that has not ended), `version` |
//! | `hour#HOUR#NODEPOOL` | `record` (deflated JSON: what nodes cost in that hour), `hour` in seconds since 1970, `nodePool`, `expires` |
//! | `ended#TIME#NODECLAIM` | `record` (JSON: an instance that has ended, written with the deletion of its claim), `expires` |
//! | `launchcheck#EC2NODECLASS` | `record` (JSON), `expires` |
//! | `plan-revision` | `revision`: how often plans have decided something |
//! | `zonalshifts` | `record` (JSON), `version` |
//!
//! Under the partition key `#clusters`, which no cluster can have, are the clusters that share the functions of another deployment:
//!
//! | `sk` | attributes |
//! |---|---|
//! | `cluster#NAME` | `queues` (JSON: the ARN of the queue of each function), `environment` (JSON: variables by name); Terraform writes them |
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod capacity;
mod catalog;
mod claims;
mod clusters;
mod commands;
mod commits;
mod costs;
mod decisions;
mod items;
mod launch_groups;
mod plans;
mod queue;
mod records;
mod shards;
mod table;
mod usage;
mod versioned;

pub use clusters::{ClusterRegistry, ServedCluster};
pub use queue::SqsQueue;
pub use table::DynamoClaims;
