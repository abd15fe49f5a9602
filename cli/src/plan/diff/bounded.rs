//! Lists of limited length.

/// A list without its end.
pub(super) struct Bounded {
    pub(super) shown: Vec<String>,
    /// The number of items after them.
    pub(super) left_out: usize,
}

/// The first items, of at most this number and of at most this many bytes together.
pub(super) fn bounded(items: Vec<String>, max_items: usize, max_bytes: usize) -> Bounded {
    let mut bytes = 0;
    let fits = |item: &&String| {
        bytes += item.len();
        bytes <= max_bytes
    };
    let kept = items.iter().take(max_items).take_while(fits).count();
    let left_out = items.len() - kept;
    let mut shown = items;
    shown.truncate(kept);
    Bounded { shown, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_items_are_kept_within_both_limits() {
        let items = || ["one", "two", "three", "four"].map(str::to_owned).to_vec();
        let kept = |max_items, max_bytes| {
            let Bounded { shown, left_out } = bounded(items(), max_items, max_bytes);
            (shown.join(" "), left_out)
        };
        assert_eq!(kept(9, 99), ("one two three four".to_owned(), 0));
        assert_eq!(kept(2, 99), ("one two".to_owned(), 2));
        assert_eq!(kept(9, 7), ("one two".to_owned(), 2));
        assert_eq!(kept(9, 0), (String::new(), 4));
    }
}
