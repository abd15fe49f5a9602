//! What instances and commitments cost.

/// What the instances of an hour cost with commitments, in dollars an hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bill {
    /// The instances, in the order in which they were given.
    pub instances: Vec<InstanceBill>,
    /// The commitments: Reserved Instances, then Savings Plans, each in the order of [`Commitments`](crate::Commitments).
    pub commitments: Vec<CommitmentBill>,
}

/// What an instance costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InstanceBill {
    /// The part of its on-demand price that commitments cover, in dollars an hour.
    pub covered: f64,
    /// What is paid for it besides the commitments, in dollars an hour; zero if its price is unknown, and for instances in a capacity
    /// reservation, because the reservation is billed, used or not.
    pub uncovered: f64,
}

/// A commitment, and how much of it is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitmentBill {
    /// The ID.
    pub id: String,
    /// What it is.
    pub described: String,
    /// What it costs, used or not, in dollars an hour.
    pub committed: f64,
    /// The part of it that instances use, from 0 to 1.
    pub share_used: f64,
}

impl CommitmentBill {
    /// The part of it that instances use, in dollars an hour.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.committed * self.share_used
    }

    /// The part of it that nothing uses, in dollars an hour.
    #[must_use]
    pub fn unused(&self) -> f64 {
        self.committed - self.used()
    }
}

impl Bill {
    /// The part of the on-demand prices that commitments cover, in dollars an hour.
    #[must_use]
    pub fn covered(&self) -> f64 {
        sum(self.instances.iter().map(|one| one.covered))
    }

    /// What is paid besides the commitments, in dollars an hour.
    #[must_use]
    pub fn uncovered(&self) -> f64 {
        sum(self.instances.iter().map(|one| one.uncovered))
    }

    /// What the commitments cost, in dollars an hour.
    #[must_use]
    pub fn committed(&self) -> f64 {
        sum(self.commitments.iter().map(|one| one.committed))
    }

    /// The part of the commitments that nothing uses, in dollars an hour.
    #[must_use]
    pub fn unused(&self) -> f64 {
        sum(self.commitments.iter().map(CommitmentBill::unused))
    }

    /// What is paid for all: the commitments, and what they do not cover, in dollars an hour.
    #[must_use]
    pub fn paid(&self) -> f64 {
        self.committed() + self.uncovered()
    }
}

fn sum(all: impl Iterator<Item = f64>) -> f64 {
    all.fold(0.0, |sum, one| sum + one)
}
