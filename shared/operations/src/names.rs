//! Names and ids of new claims, generated from a seed instead of randomness, so that a plan can be replayed.

use nodeless_lifecycle::adopt::suffix;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// Generates unused claim names. The seed must differ from plan to plan.
pub struct Names {
    seed: String,
    taken: BTreeSet<String>,
    counter: u64,
}

impl Names {
    /// Names that are not among those that are taken.
    pub fn new(seed: String, taken: BTreeSet<String>) -> Self {
        Self { seed, taken, counter: 0 }
    }

    /// The next free name `NODEPOOL-xxxxx`, and an id that belongs to this name only.
    pub fn next(&mut self, node_pool: &str) -> (String, String) {
        loop {
            let digest = Sha256::digest(format!("{}/{node_pool}/{}", self.seed, self.counter));
            self.counter += 1;
            let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
            let name = format!("{node_pool}-{}", suffix(number));
            if self.taken.insert(name.clone()) {
                let uid: String = digest.iter().skip(8).take(16).map(|byte| format!("{byte:02x}")).collect();
                return (name, uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_repeat_with_their_seed_and_never_collide() {
        let names = |seed: &str, taken: BTreeSet<String>| {
            let mut names = Names::new(seed.into(), taken);
            (0..100).map(|_| names.next("default")).collect::<Vec<_>>()
        };
        let first = names("a", BTreeSet::new());
        assert_eq!(first, names("a", BTreeSet::new()));
        assert_ne!(first, names("b", BTreeSet::new()));
        assert_eq!(first.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), 100);
        assert_eq!(first.iter().map(|(_, uid)| uid).collect::<BTreeSet<_>>().len(), 100);
        assert!(first.iter().all(|(name, uid)| name.len() == "default-abcde".len() && uid.len() == 32));
        let taken = BTreeSet::from([first[0].0.clone()]);
        assert_eq!(names("a", taken)[0], first[1], "a name that is taken is passed over, with its id");
    }
}
