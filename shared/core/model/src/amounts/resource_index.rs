//! Resources as short rows of numbers: every name that occurs has its place in all of them.

use crate::{Quantity, ResourceList};

/// The index of each resource in rows of amounts. A row may have further columns behind the resources, for what else a node has a
/// limited number of.
#[derive(Clone, Debug, Default)]
pub struct ResourceIndex {
    names: Vec<String>,
    /// The number of names that are resources.
    resources: usize,
}

impl ResourceIndex {
    /// All resources that occur in these lists.
    #[must_use]
    pub fn new<'a>(lists: impl IntoIterator<Item = &'a ResourceList>) -> Self {
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
        let resources = names.len();
        Self { names: names.into_iter().map(str::to_owned).collect(), resources }
    }

    /// With further columns, which are zero in the rows of lists. A name that has a column already gets no other.
    #[must_use]
    pub fn with_columns(mut self, names: impl IntoIterator<Item = String>) -> Self {
        for name in names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        self
    }

    /// The places and names of the columns behind the resources.
    pub fn columns(&self) -> impl Iterator<Item = (usize, &str)> {
        self.names.iter().enumerate().skip(self.resources).map(|(place, name)| (place, name.as_str()))
    }

    /// A list as a row, in thousandths; resources without a place fall away.
    #[must_use]
    pub fn amounts(&self, list: &ResourceList) -> Box<[i64]> {
        let of_column =
            |(place, name): (usize, &String)| if place < self.resources { list.get(name).milli() } else { 0 };
        self.names.iter().enumerate().map(of_column).collect()
    }

    /// The resources of a row as a list, without the zeros.
    #[must_use]
    pub fn list(&self, amounts: &[i64]) -> ResourceList {
        self.names[..self.resources]
            .iter()
            .zip(amounts)
            .filter(|(_, amount)| **amount != 0)
            .map(|(name, amount)| (name.clone(), Quantity::from_milli(*amount)))
            .collect()
    }

    /// The place of a name, if it has one.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// The number of resources and further columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name at a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        &self.names[place]
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
        let index = ResourceIndex::new([&list, &more]);
        assert_eq!((index.len(), index.place("cpu"), index.name(0), index.place("disk")), (3, Some(0), "cpu", None));
        assert_eq!(index.list(&index.amounts(&list)), list);
        assert!(ResourceIndex::new([]).is_empty());
    }

    #[test]
    fn further_columns_are_no_resources() {
        let list = ResourceList::new().with("cpu", Quantity::from_units(1)).with("seats", Quantity::from_units(3));
        let cpu = ResourceList::new().with("cpu", Quantity::from_units(1));
        let index = ResourceIndex::new([&cpu]).with_columns(["seats".to_owned(), "cpu".to_owned()]);
        assert_eq!(index.columns().collect::<Vec<_>>(), [(1, "seats")]);
        assert_eq!(*index.amounts(&list), [1000, 0]);
        assert_eq!(index.list(&[1000, 3000]), cpu);
    }
}
