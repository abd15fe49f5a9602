//! What the functions of one cluster store in the claims table, and the conditions of each write. The table itself is a port
//! ([`Table`](nodeless_ports::Table)): DynamoDB, or memory in a simulation, which then runs the same conditions.
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
//! | `nodeclaim#NAME` | `record` (JSON, deflated with the dictionary `claim.dictionary`), `version`, `uid`; `nodePool` and `phase` for people; `instanceId` once launched (index `instance`, keys alone) |
//! | `launchgroup#ID` | `record` (deflated JSON: its claims, and the claim of each instance), `version`, `expires`; for groups of several |
//! | `shard#NUMBER` | `record` (deflated JSON: the claims that are reconciled together, and when each is due), `version` |
//! | `nodepool#NAME` | `r:RESOURCE` in thousandths, `microdollars` per hour, `recounted`, `revision` |
//! | `unavailable#TYPE#ZONE#CAPACITY#PLACEMENTGROUP#RESERVATION`; what is empty covers all | `until`, `reason`, `expires` |
//! | `interrupted#TYPE#ZONE#INSTANCE` | `at`, `until`, `expires`: an interruption of a spot instance |
//! | `budget#TYPE#ZONE#CAPACITY` | `size`, `until`, `expires` |
//! | `catalog#current` | `catalogVersion`, `chunks` |
//! | `catalog#refreshed` | `refreshed` (seconds since 1970) |
//! | `catalog#VERSION#NNN` | `chunk` (bytes), `expires` once superseded |
//! | `command#ID` | `encoded` (bytes), `version`, `summary` for people |
//! | `churn#NODEPOOL` | `record` (JSON), `version`, `expires` |
//! | `registrations#NODEPOOL` | `record` (JSON), `version`, `expires` |
//! | `memory` | `record` (JSON: memory that nodes reported, by image and instance type), `version`, `expires` |
//! | `not-yet-evaluated` | `record` (deflated JSON: names of nodes), `expires` |
//! | `published-events` | `record` (deflated JSON: hashes of Events that are published), `expires` |
//! | `plan` | `record` (JSON: a plan that was begun and has not ended), `id`, `expires` |
//! | `plan-request` | `at`: when a plan was last requested that does not wait for the end of a batch window, `expires` |
//! | `snapshot#ID#NNN` | `chunk` (bytes), `expires`; only where an operator asks for it |
//! | `decision#ID` | `record` (JSON), `expires`; `parts`, if the record has more than this item |
//! | `decision#ID#NNN` | `record` (the JSON goes on), `expires` |
//! | `cost#open` | `record` (deflated JSON: what nodes cost in the hour that has not ended), `version` |
//! | `costreport` | `record` (JSON: the last report of costs that was sent to a topic, or begun), `version` |
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

mod accounting;
pub mod claims;
mod clusters;
mod commands;
mod commits;
pub mod decisions;
mod items;
pub mod launch_groups;
mod offers;
pub mod plans;
pub mod records;
pub mod shards;
mod state;
mod versioned;

use accounting::usage;
pub use accounting::{costs, limits};
pub use clusters::{CLUSTERS, ServedCluster, served_clusters};
pub use commands::decode_command;
pub use nodeless_model::error::{ErrorKind, PortError};
pub use offers::capacity;
pub use offers::capacity::{LaunchAnswer, LaunchCheck, Refusal};
pub use records::{RecordKind, StoredRecord};
pub use shards::StoredShard;
pub use state::State;
