//! The capacity units that the partitions of a table consume, and their maximum per second.
//!
//! Units are those of
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html>: an item counts in steps of 4 KB
//! when it is read and of 1 KB when it is written, a Query counts the sum of its items, and a write in a transaction counts twice.
//! The maximum of a partition is that of
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html>.

use jiff::Timestamp;
use nodeless_ports::table::Partition;
use std::collections::BTreeMap;

/// A page of a Query.
const PAGE_BYTES: usize = 1024 * 1024;

/// A read or a write, with the size of the items in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A consistent read of one item. GetItem reads one, BatchGetItem counts each by itself.
    Item(usize),
    /// A consistent Query of items of this size together.
    Query(usize),
    /// A write of one item.
    Write(usize),
    /// A write of one item in a transaction.
    WriteInTransaction(usize),
}

/// The units a second of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLimits {
    /// Units that are read.
    pub reads: u32,
    /// Units that are written.
    pub writes: u32,
}

impl Default for PartitionLimits {
    fn default() -> Self {
        Self { reads: 3000, writes: 1000 }
    }
}

/// The units that a partition lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Reads,
    Writes,
}

#[derive(Debug)]
struct Left {
    reads: f64,
    writes: f64,
    at: Timestamp,
}

/// The units that the partitions have left, at least one partition for each partition key. They are full after a second without requests.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) limits: PartitionLimits,
    partitions: BTreeMap<Partition, Left>,
    /// Requests that were refused.
    pub(crate) refused: u64,
}

impl Use {
    /// The units of each request that this takes: a Query takes one for each page.
    fn requests(self) -> Vec<u32> {
        let units = |bytes: usize, step: usize| u32::try_from(bytes.div_ceil(step).max(1)).unwrap_or(u32::MAX);
        match self {
            Self::Item(bytes) => vec![units(bytes, 4096)],
            Self::Query(bytes) => {
                let whole = std::iter::repeat_n(units(PAGE_BYTES, 4096), bytes / PAGE_BYTES);
                let rest = bytes % PAGE_BYTES;
                whole.chain((rest > 0 || bytes == 0).then(|| units(rest, 4096))).collect()
            }
            Self::Write(bytes) => vec![units(bytes, 1024)],
            Self::WriteInTransaction(bytes) => vec![units(bytes, 1024).saturating_mul(2)],
        }
    }

    const fn reads(self) -> bool {
        matches!(self, Self::Item(_) | Self::Query(_))
    }
}

impl Meter {
    /// Takes the units of requests that are made together.
    ///
    /// # Errors
    /// The units that a partition lacks. Requests that were accepted before keep their units.
    pub(crate) fn take(&mut self, uses: &[(Partition, Use)], now: Timestamp) -> Result<(), Exceeded> {
        let (reads, writes) = (f64::from(self.limits.reads), f64::from(self.limits.writes));
        for (partition, one) in uses {
            let left = self.partitions.entry(*partition).or_insert(Left { reads, writes, at: now });
            let elapsed = now.duration_since(left.at).as_secs_f64().max(0.0);
            left.reads = (left.reads + elapsed * reads).min(reads);
            left.writes = (left.writes + elapsed * writes).min(writes);
            left.at = left.at.max(now);
            let (of_kind, exceeded) = match one.reads() {
                true => (&mut left.reads, Exceeded::Reads),
                false => (&mut left.writes, Exceeded::Writes),
            };
            for units in one.requests() {
                // DynamoDB learns the units of a request when it is done, so one that begins within the limit is not refused.
                if *of_kind <= 0.0 {
                    self.refused += 1;
                    return Err(exceeded);
                }
                *of_kind -= f64::from(units);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeless_state::claims::{PARTITIONS, partition_of};

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
    }

    #[test]
    fn sizes_are_rounded_as_dynamodb_documents() {
        let units = |one: Use| one.requests().into_iter().sum::<u32>();
        assert_eq!([0, 1, 4096, 4097].map(|bytes| units(Use::Item(bytes))), [1, 1, 1, 2]);
        assert_eq!([0, 1024, 1025].map(|bytes| units(Use::Write(bytes))), [1, 1, 2]);
        assert_eq!([1024, 1025].map(|bytes| units(Use::WriteInTransaction(bytes))), [2, 4]);
        assert_eq!([0, 4096, 3 * 1500].map(|bytes| units(Use::Query(bytes))), [1, 1, 2], "the sum of three items");
        assert_eq!(Use::Query(2 * PAGE_BYTES + 1).requests(), [256, 256, 1]);
        assert_eq!(Use::Query(PAGE_BYTES).requests(), [256]);
    }

    #[test]
    fn a_partition_has_its_units_again_after_a_second() {
        let mut meter = Meter::default();
        let read = [(Partition::Cluster, Use::Item(3000 * 4096))];
        assert_eq!(meter.take(&read, at(0)), Ok(()));
        assert_eq!(meter.take(&read, at(0)), Err(Exceeded::Reads));
        assert_eq!(meter.take(&[(Partition::Cluster, Use::Write(1))], at(0)), Ok(()), "writes are counted separately");
        assert_eq!(meter.take(&[(Partition::Claims(0), Use::Item(1))], at(0)), Ok(()), "and other partitions");
        assert_eq!(meter.take(&[(Partition::Cluster, Use::Item(1))], at(1)), Ok(()), "three units are back");
        assert_eq!(meter.take(&read, at(1000)), Ok(()));
        let write = [(Partition::Cluster, Use::WriteInTransaction(500 * 1024))];
        assert_eq!((meter.take(&write, at(5000)), meter.take(&write, at(5000))), (Ok(()), Err(Exceeded::Writes)));
        assert_eq!(meter.refused, 2);
    }

    /// Issue: under one partition key, a second list of 5,000 large claims in the same second is refused.
    #[test]
    fn lists_of_five_thousand_claims_need_several_partition_keys() {
        let lists = |partitions: u32| {
            let mut bytes = BTreeMap::<u32, usize>::new();
            for number in 0..5000 {
                *bytes.entry(partition_of(&format!("default-{number:05x}")) % partitions).or_default() += 1800;
            }
            let list: Vec<_> =
                bytes.into_iter().map(|(key, bytes)| (Partition::Claims(key), Use::Query(bytes))).collect();
            let mut meter = Meter::default();
            (0..100).take_while(|_| meter.take(&list, at(0)).is_ok()).count()
        };
        assert_eq!((lists(1), lists(PARTITIONS)), (1, 10));
    }
}
