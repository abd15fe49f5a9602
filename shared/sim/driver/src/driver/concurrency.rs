//! The number of invocations that run at the same time. Each queue of a cluster has an event source mapping with a limit, and all functions
//! of an account share its concurrency.
//!
//! <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>: a mapping of a FIFO queue invokes its function once at a time for
//! each message group, and one of a standard queue at most as often as its maximum concurrency. Lambda then leaves the messages in the queue.
//! <https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html>: beyond the concurrency of the account, Lambda refuses invocations
//! of any function, and the mapping repeats them.
//!
//! Lambda gives up to ten messages to an invocation, and up to a hundred events of EC2. Here each has its own, so that the limits are
//! reached earlier.

use nodeless_world::memory::Function;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum concurrency of the mappings of the claims queue and of the queue of interruptions. They repeat the defaults of Terraform,
/// which the tests in `terraform.rs` compare.
pub(super) const CLAIMS_CONCURRENCY: usize = 10;
pub(super) const INTERRUPTION_CONCURRENCY: usize = 5;

/// The concurrency of an account, which the functions of all its clusters share. Clones share it.
#[derive(Clone, Debug)]
pub struct AccountConcurrency(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    limit: usize,
    running: usize,
    highest: usize,
}

impl AccountConcurrency {
    /// An account in which so many invocations may run at the same time.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Account { limit, running: 0, highest: 0 })))
    }

    /// The highest number of invocations that ran at the same time.
    #[must_use]
    pub fn highest(&self) -> usize {
        self.lock().highest
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The invocations of one cluster that run.
#[derive(Debug)]
pub(super) struct Mappings {
    account: AccountConcurrency,
    running: BTreeMap<Function, usize>,
}

impl Mappings {
    pub(super) fn new(account: AccountConcurrency) -> Self {
        Self { account, running: BTreeMap::new() }
    }

    /// Whether another invocation may begin.
    pub(super) fn admits(&self, function: Function) -> bool {
        let account = self.account.lock();
        self.of_function(function) < limit(function) && account.running < account.limit
    }

    pub(super) fn begin(&mut self, function: Function) {
        *self.running.entry(function).or_default() += 1;
        let mut account = self.account.lock();
        account.running += 1;
        account.highest = account.highest.max(account.running);
    }

    pub(super) fn end(&mut self, function: Function) {
        let running = self.of_function(function);
        self.running.insert(function, running.saturating_sub(1));
        let mut account = self.account.lock();
        account.running = account.running.saturating_sub(1);
    }

    fn of_function(&self, function: Function) -> usize {
        self.running.get(&function).copied().unwrap_or_default()
    }
}

const fn limit(function: Function) -> usize {
    match function {
        // The queues are FIFO, with one message group.
        Function::Planner | Function::Catalog => 1,
        Function::Lifecycle => CLAIMS_CONCURRENCY,
        Function::Interruption => INTERRUPTION_CONCURRENCY,
    }
}
