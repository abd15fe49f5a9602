//! Selects at random, and lists what was selected.

use nodeless_world::random::Random;

pub(super) fn some_of<T>(mut from: Vec<T>, count: u32, random: &mut Random) -> Vec<T> {
    let mut chosen = Vec::new();
    while chosen.len() < usize::try_from(count).unwrap_or(usize::MAX) && !from.is_empty() {
        let at = usize::try_from(random.below(u64::try_from(from.len()).unwrap_or(1))).unwrap_or(0);
        chosen.push(from.remove(at));
    }
    chosen
}

pub(super) fn listed(names: &[String]) -> String {
    if names.is_empty() { "none, because there is none".to_owned() } else { names.join(", ") }
}
