//! The conditional write of items that have a version.

use crate::items::number;
use nodeless_ports::table::{Attributes, Change, Condition, Key, Write};

const VERSION: &str = "version";

/// The precondition on the stored item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// No item.
    Nothing,
    /// The item with this version.
    Version(u64),
    /// The item with this version, or none: DynamoDB may delete an expired item between the read and the write.
    VersionUnlessExpired(u64),
}

impl Stored {
    /// The version that was read; zero if there was no item.
    pub(crate) const fn read(version: u64) -> Self {
        if version == 0 { Self::Nothing } else { Self::Version(version) }
    }

    /// Like [`read`](Self::read), for items that expire.
    pub(crate) const fn read_expiring(version: u64) -> Self {
        if version == 0 { Self::Nothing } else { Self::VersionUnlessExpired(version) }
    }

    /// The version of the written item.
    pub(crate) const fn next(self) -> u64 {
        match self {
            Self::Nothing => 1,
            Self::Version(read) | Self::VersionUnlessExpired(read) => read + 1,
        }
    }

    /// The write that replaces the item and increments its version.
    pub(crate) fn replace(self, key: Key, mut attributes: Attributes) -> Write {
        attributes.insert(VERSION.to_owned(), number(self.next()));
        Write::new(key, Change::Put(attributes)).on(self.condition())
    }

    /// The condition on the stored item.
    pub(crate) fn condition(self) -> Condition {
        match self {
            Self::Nothing => Condition::Missing,
            Self::Version(read) => is_version(read),
            Self::VersionUnlessExpired(read) => Condition::Any(vec![Condition::Missing, is_version(read)]),
        }
    }
}

/// The condition that the item has this version.
pub(crate) fn is_version(version: u64) -> Condition {
    Condition::Is(VERSION.to_owned(), number(version))
}
