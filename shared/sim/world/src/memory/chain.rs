//! The chains of messages in which Lambda looks for loops.
//!
//! The SDKs of AWS pass on the trace header of an invocation with the messages that it sends, so Lambda can count how often a function was
//! invoked in the same chain: <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>. A schedule, an event or a call of
//! the Function URL starts a chain.

use nodeless_ports::queue::ShardMessage;
use std::collections::BTreeMap;

/// The number of invocations of a function in a chain after which Lambda stops the next one. AWS documents about 16.
const INVOCATIONS: u32 = 16;

/// A function that messages invoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// It receives the plan queue.
    Planner,
    /// It receives the claims queue.
    Lifecycle,
    /// It receives the catalog queue.
    Catalog,
    /// It receives the interruption queue, to which no function sends.
    Interruption,
}

/// The content of a message that functions send.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Message {
    /// A request for a plan.
    Plan,
    /// The claims of a shard are due.
    Shard(ShardMessage),
    /// An EC2NodeClass is to be validated.
    NodeClass(String),
    /// EC2NodeClasses are to be resolved.
    Resolve,
}

/// The invocations that led to a message, by function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain(BTreeMap<Function, u32>);

impl Chain {
    /// The chain with one more invocation of a function; `None` if Lambda stops that invocation.
    #[must_use]
    pub fn invoking(&self, function: Function) -> Option<Self> {
        let mut chain = self.clone();
        let count = chain.0.entry(function).or_default();
        *count += 1;
        (*count <= INVOCATIONS).then_some(chain)
    }

    /// Adds another message of a batch: the longer of both chains counts.
    pub(super) fn add(&mut self, other: &Self) {
        for (function, count) in &other.0 {
            let own = self.0.entry(*function).or_default();
            *own = (*own).max(*count);
        }
    }
}
