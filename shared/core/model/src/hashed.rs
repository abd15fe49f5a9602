//! Hash maps and sets of plans, which hash most of what they compare: quicker than those of the standard library.
//!
//! Their hashes are seeded by addresses of the process, which differ from one to the next.

use foldhash::fast::RandomState;

/// A hash map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A hash set.
pub type HashSet<T> = std::collections::HashSet<T, RandomState>;
