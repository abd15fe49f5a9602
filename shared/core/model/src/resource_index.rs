//! Resources as short rows of numbers: every name that occurs has its place in all of them.

use crate::{Quantity, ResourceList};

/// The index of each resource in rows of amounts.
#[derive(Clone, Debug, Default)]
pub struct ResourceIndex(Vec<String>);

impl ResourceIndex {
    /// All resources that occur in these lists.
    #[must_use]
    pub fn of<'a>(lists: impl IntoIterator<Item = &'a ResourceList>) -> Self {
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

    /// A list as a row, in thousandths; resources without a place fall away.
    #[must_use]
    pub fn amounts(&self, list: &ResourceList) -> Box<[i64]> {
        self.0.iter().map(|name| list.get(name).milli()).collect()
    }

    /// A row as a list, without the zeros.
    #[must_use]
    pub fn list(&self, amounts: &[i64]) -> ResourceList {
        self.0
            .iter()
            .zip(amounts)
            .filter(|(_, amount)| **amount != 0)
            .map(|(name, amount)| (name.clone(), Quantity::from_milli(*amount)))
            .collect()
    }

    /// The place of a name, if it has one.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known == name)
    }

    /// The number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no resources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name at a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        &self.0[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_from_its_row() {
        let list =
            ResourceList::new().with("memory", Quantity::from_mebibytes(1)).with("cpu", Quantity::from_milli(250));
        let more = ResourceList::new().with("pods", Quantity::from_units(1)).with("cpu", Quantity::from_milli(1));
        let index = ResourceIndex::of([&list, &more]);
        assert_eq!((index.len(), index.place("cpu"), index.name(0), index.place("disk")), (3, Some(0), "cpu", None));
        assert_eq!(index.list(&index.amounts(&list)), list);
        assert!(ResourceIndex::of([]).is_empty());
    }
}
