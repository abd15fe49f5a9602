//! Queues that lose, delay and duplicate messages.

use super::FaultInjection;
use crate::random::Random;
use async_trait::async_trait;
use nodeless_ports::queue::{NodeClassGeneration, ShardMessage, WakeSource};
use nodeless_ports::{PortError, Queue};
use std::sync::Arc;
use std::time::Duration;

/// The Queue port with faults injected.
#[derive(Clone)]
pub struct FaultyQueue {
    /// The port itself.
    pub inner: Arc<dyn Queue>,
    /// The faults.
    pub fault_injection: FaultInjection,
}

/// The delivery of a message: the delay of each of its copies. Usually there is one copy without a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate(pub Vec<Duration>);

impl Default for Fate {
    /// One copy without a delay.
    fn default() -> Self {
        Self(vec![Duration::ZERO])
    }
}

impl FaultInjection {
    /// Decides the delivery of a message.
    #[must_use]
    pub fn fate(&self) -> Fate {
        let mut state = self.lock();
        let rates = state.rates;
        let latest = u64::try_from(rates.latest.as_millis()).unwrap_or(u64::MAX);
        if state.random.happens(rates.lost) {
            state.faults += 1;
            return Fate(Vec::new());
        }
        let delay = |random: &mut Random| {
            if random.happens(rates.late) { Duration::from_millis(random.below(latest)) } else { Duration::ZERO }
        };
        let mut copies = vec![delay(&mut state.random)];
        if state.random.happens(rates.doubled) {
            copies.push(Duration::from_millis(state.random.below(latest)));
        }
        if copies != [Duration::ZERO] {
            state.faults += 1;
        }
        Fate(copies)
    }
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn wake_planner(&self, source: WakeSource) -> Result<(), PortError> {
        let Fate(copies) = self.fault_injection.fate();
        let send = async {
            for delay in copies {
                if delay.is_zero() {
                    self.inner.wake_planner(source).await?;
                } else {
                    self.inner.wake_planner_after(delay).await?;
                }
            }
            Ok(())
        };
        self.fault_injection.write("queue wake planner", format!("{source:?}"), |()| true, send).await
    }

    async fn wake_planner_after(&self, delay: Duration) -> Result<(), PortError> {
        let Fate(copies) = self.fault_injection.fate();
        let send = async {
            for late in copies {
                self.inner.wake_planner_after(delay + late).await?;
            }
            Ok(())
        };
        self.fault_injection.write("queue wake planner later", String::new(), |()| true, send).await
    }

    async fn check_node_class(&self, name: &str, delay: Duration) -> Result<(), PortError> {
        let Fate(copies) = self.fault_injection.fate();
        let send = async {
            for late in copies {
                self.inner.check_node_class(name, delay + late).await?;
            }
            Ok(())
        };
        self.fault_injection.write("queue check node class", name.to_owned(), |()| true, send).await
    }

    async fn wake_shard(&self, message: ShardMessage, delay: Duration) -> Result<(), PortError> {
        let Fate(copies) = self.fault_injection.fate();
        let send = async {
            for late in copies {
                self.inner.wake_shard(message, delay + late).await?;
            }
            Ok(())
        };
        self.fault_injection.write("queue wake shard", message.shard.to_string(), |()| true, send).await
    }

    async fn resolve_node_classes(&self, changed: &[NodeClassGeneration]) -> Result<(), PortError> {
        // A late message arrives at the next plan.
        let Fate(copies) = self.fault_injection.fate();
        let send = async {
            for _ in copies.iter().filter(|delay| delay.is_zero()) {
                self.inner.resolve_node_classes(changed).await?;
            }
            Ok(())
        };
        self.fault_injection.write("queue resolve node classes", String::new(), |()| true, send).await
    }
}
