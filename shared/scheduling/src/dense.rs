//! Resources as short vectors: every name that some pod asks for has its place in all of them.

use nodeless_model::{Quantity, ResourceList};

/// Quantities in thousandths, by the resources' places.
pub(crate) type Amounts = Box<[i64]>;

/// Which resource has which place.
#[derive(Debug)]
pub(crate) struct ResourceIndex(Vec<String>);

impl ResourceIndex {
    /// All resources that occur in these lists.
    pub(crate) fn of<'a>(lists: impl IntoIterator<Item = &'a ResourceList>) -> Self {
        // Few names, many lists: a look through the known ones is quicker than any set.
        let mut names: Vec<&str> = Vec::new();
        for list in lists {
            for (name, _) in list.iter() {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names.sort_unstable();
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// A list as a vector; resources that nobody asks for fall away.
    pub(crate) fn amounts(&self, list: &ResourceList) -> Amounts {
        self.0.iter().map(|name| list.get(name).milli()).collect()
    }

    /// A vector as a list, without the zeros.
    pub(crate) fn list(&self, amounts: &[i64]) -> ResourceList {
        self.0
            .iter()
            .zip(amounts)
            .filter(|(_, amount)| **amount != 0)
            .map(|(name, amount)| (name.clone(), Quantity::from_milli(*amount)))
            .collect()
    }

    /// The place of a name, if any pod asks for it.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known == name)
    }

    /// The name at a place.
    pub(crate) fn name(&self, place: usize) -> &str {
        &self.0[place]
    }
}

/// How many times `asked` fits into `available`, at most `limit`. Nothing fits where more is taken than there is.
pub(crate) fn times_fitting(asked: &[i64], available: &[i64], limit: u32) -> u32 {
    let mut times = i64::from(limit);
    for (asked, available) in asked.iter().zip(available) {
        if *available < 0 {
            return 0;
        }
        if *asked > 0 {
            times = times.min(available / asked);
        }
    }
    u32::try_from(times).unwrap_or(0)
}

/// Whether `asked` fits into `available`.
pub(crate) fn fits(asked: &[i64], available: &[i64]) -> bool {
    asked.iter().zip(available).all(|(asked, available)| *available >= 0 && asked <= available)
}

/// Takes `asked` from `available` so many times.
pub(crate) fn take(available: &mut [i64], asked: &[i64], times: u32) {
    for (available, asked) in available.iter_mut().zip(asked) {
        *available = available.saturating_sub(asked.saturating_mul(i64::from(times)));
    }
}

/// Adds `more` to `sum` so many times.
pub(crate) fn add(sum: &mut [i64], more: &[i64], times: u32) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more.saturating_mul(i64::from(times)));
    }
}
