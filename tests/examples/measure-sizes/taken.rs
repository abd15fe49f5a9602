//! Measurements of invocations of functions.

use nodeless_tests::lambda::Function;
use serde_json::{Value, json};
use std::time::Instant;

/// The sums of the measurements of a function's invocations.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) invocations: u64,
    pub(crate) seconds: f64,
    pub(crate) processor_seconds: f64,
    /// The longest invocation.
    pub(crate) longest_seconds: f64,
}

impl Measured {
    /// Gives the function an event, which must succeed.
    pub(crate) async fn invoke(&mut self, function: &mut Function, event: &Value) -> Value {
        let (before, processor) = (Instant::now(), processor_seconds(function));
        let answer = function.invoke(event).await.unwrap();
        let seconds = before.elapsed().as_secs_f64();
        self.invocations += 1;
        self.seconds += seconds;
        self.processor_seconds += processor_seconds(function) - processor;
        self.longest_seconds = self.longest_seconds.max(seconds);
        answer
    }

    /// Adds what another function took.
    pub(crate) fn add(&mut self, other: &Self) {
        self.invocations += other.invocations;
        self.seconds += other.seconds;
        self.processor_seconds += other.processor_seconds;
        self.longest_seconds = self.longest_seconds.max(other.longest_seconds);
    }

    pub(crate) fn report(&self) -> Value {
        json!({
            "invocations": self.invocations, "seconds": rounded(self.seconds),
            "processorSeconds": rounded(self.processor_seconds), "longestSeconds": rounded(self.longest_seconds),
        })
    }
}

/// Seconds with three decimals.
pub(crate) fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn processor_seconds(function: &Function) -> f64 {
    function.processor_time().expect("Linux reports it").as_secs_f64()
}

/// The most memory that the process of a function has used, in megabytes.
pub(crate) fn peak_megabytes(function: &Function) -> Option<u64> {
    function.peak_memory_kilobytes().map(|kilobytes| kilobytes / 1000)
}
