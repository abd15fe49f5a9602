//! The result of a run of a case.

use crate::path::PipelineOutcome;

/// The seconds of the whole path and of that without the decision about disruption, counts, and MiB.
#[derive(Clone, Copy, Debug)]
pub struct Answer([f64; 6]);

impl Answer {
    pub fn new(outcome: &PipelineOutcome) -> Self {
        let parts = [outcome.all, outcome.planned].map(|part| part.as_secs_f64());
        let counts = [outcome.launches, outcome.left, outcome.going].map(|count| count as f64);
        Self([parts[0], parts[1], counts[0], counts[1], counts[2], peak()])
    }

    pub fn seconds(&self) -> f64 {
        self.0[0]
    }

    pub fn line(&self) -> String {
        self.0.map(|number| number.to_string()).join(" ")
    }

    pub fn parsed(line: &str) -> Option<Self> {
        let numbers: Vec<f64> = line.split(' ').filter_map(|number| number.parse().ok()).collect();
        numbers.try_into().ok().map(Self)
    }

    /// The cells of the table.
    pub fn cells(&self) -> String {
        let [seconds, planned, launches, left, going, peak] = self.0;
        let decided = (seconds - planned).max(0.0);
        format!("{seconds:.3} | {planned:.3} | {decided:.3} | {launches} | {left} | {going} | {peak}")
    }
}

/// Has the peak memory of this process begin with what it uses now (`clear_refs` in proc(5)).
pub fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// The peak memory of this process in MiB.
fn peak() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    (line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0).round()
}
