//! Faults: outages, and a process that dies in the middle of its work.

use nodeless_ports::{ErrorKind, PortError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Makes calls fail. Clones share their state, so that one fault covers several ports, as the end of a process does.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    writes: u64,
    death: Option<Death>,
    lost: Option<u64>,
    dead: bool,
    outages: BTreeMap<String, ErrorKind>,
}

#[derive(Clone, Copy, Debug)]
struct Death {
    at: u64,
    done: bool,
}

impl Faults {
    /// The process dies at the write with this number, counted from 0 since the last [`Self::revive`]: before it is done,
    /// or right after, so that only its answer is lost. From then on every call fails.
    pub fn die_at(&self, write: u64, done: bool) {
        let mut state = self.lock();
        state.death = Some(Death { at: write, done });
    }

    /// The write with this number, counted as above, is done, but its answer is lost. The process goes on.
    pub fn lose_answer_at(&self, write: u64) {
        self.lock().lost = Some(write);
    }

    /// Begins a new process. Gives the number of writes of the last one, and whether it died.
    pub fn revive(&self) -> (u64, bool) {
        let mut state = self.lock();
        let result = (state.writes, state.dead);
        state.writes = 0;
        state.death = None;
        state.lost = None;
        state.dead = false;
        result
    }

    /// Whether the process has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.lock().dead
    }

    /// Operations whose name begins so fail until [`Self::mend`].
    pub fn break_down(&self, operations: &str, kind: ErrorKind) {
        self.lock().outages.insert(operations.to_owned(), kind);
    }

    /// Ends all outages.
    pub fn mend(&self) {
        self.lock().outages.clear();
    }

    /// Does a read unless a fault is in its way.
    ///
    /// # Errors
    /// The fault's, or the read's own.
    pub fn read<T>(&self, operation: &str, read: impl FnOnce() -> Result<T, PortError>) -> Result<T, PortError> {
        self.check(operation)?;
        read()
    }

    /// Does a write unless a fault is in its way, and counts it.
    ///
    /// # Errors
    /// The fault's, or the write's own.
    pub fn write<T>(&self, operation: &str, write: impl FnOnce() -> Result<T, PortError>) -> Result<T, PortError> {
        self.check(operation)?;
        let (death, lost) = {
            let mut state = self.lock();
            let number = state.writes;
            state.writes += 1;
            let death = state.death.filter(|death| death.at == number);
            state.dead |= death.is_some();
            (death, state.lost == Some(number))
        };
        match death {
            None if lost => {
                let _answer_is_lost = write();
                Err(PortError::new(ErrorKind::Unavailable, operation, "the answer was lost"))
            }
            None => write(),
            Some(Death { done: true, .. }) => {
                let _answer_is_lost = write();
                Err(died(operation))
            }
            Some(Death { done: false, .. }) => Err(died(operation)),
        }
    }

    fn check(&self, operation: &str) -> Result<(), PortError> {
        let state = self.lock();
        if state.dead {
            return Err(died(operation));
        }
        match state.outages.iter().find(|(prefix, _)| operation.starts_with(prefix.as_str())) {
            Some((_, kind)) => Err(PortError::new(*kind, operation, "a fault was asked for")),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn died(operation: &str) -> PortError {
    PortError::new(ErrorKind::Unavailable, operation, "the process has ended")
}
