//! Resources that pods request in portions which not every type can hold, such as two GPUs.
//!
//! With one price for a GPU, a pod with one GPU is worth as much on a machine with four as on one with a single GPU, although only
//! the pods with two or four need the large machine, and it is the dearer one for each GPU. So the linear program of
//! [`crate::resource_prices`] has another row for each larger portion: the amount that pods request in portions of at least that
//! size, which only types with as much have. Its price is what the large portions cost beyond the small ones.

use std::borrow::Cow;

/// More rows than this take longer than they improve prices.
const MAX_PORTIONS: usize = 4;

/// Pods that request at least `least` of the resource at `place`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Portion {
    place: usize,
    least: i64,
}

/// The portions that are larger than the smallest one, by resource.
#[derive(Debug, Default)]
pub(crate) struct Portions(Vec<Portion>);

impl Portions {
    /// The portions of the resources that only some types have, from the requests of the pods and the capacity of the types.
    pub(crate) fn of<'r>(
        requests: impl Iterator<Item = &'r [i64]> + Clone,
        rooms: impl Iterator<Item = &'r [i64]> + Clone,
    ) -> Self {
        let width = requests.clone().next().map_or(0, <[i64]>::len);
        let mut portions = Vec::new();
        for place in (0..width).filter(|place| rooms.clone().any(|room| room[*place] == 0)) {
            let mut asked: Vec<i64> = requests.clone().map(|asked| asked[place]).filter(|asked| *asked > 0).collect();
            asked.sort_unstable();
            asked.dedup();
            portions.extend(asked.into_iter().skip(1).map(|least| Portion { place, least }));
        }
        portions.retain(|portion| rooms.clone().any(|room| room[portion.place] >= portion.least));
        portions.truncate(MAX_PORTIONS);
        Self(portions)
    }

    /// The amounts, and after them those that are in each portion.
    pub(crate) fn extend<'r>(&self, amounts: &'r [i64]) -> Cow<'r, [i64]> {
        if self.0.is_empty() {
            return Cow::Borrowed(amounts);
        }
        let within = |portion: &Portion| Some(amounts[portion.place]).filter(|amount| *amount >= portion.least);
        let portions = self.0.iter().map(|portion| within(portion).unwrap_or(0));
        Cow::Owned(amounts.iter().copied().chain(portions).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portions(requests: &[&[i64]], rooms: &[&[i64]]) -> Portions {
        Portions::of(requests.iter().copied(), rooms.iter().copied())
    }

    #[test]
    fn each_portion_above_the_smallest_is_a_row_of_its_own() {
        let found = portions(&[&[500, 1000], &[500, 4000], &[250, 2000], &[250, 0]], &[&[4000, 0], &[8000, 8000]]);
        assert_eq!(found.extend(&[500, 1000]), [500, 1000, 0, 0].as_slice());
        assert_eq!(found.extend(&[500, 2000]), [500, 2000, 2000, 0].as_slice());
        assert_eq!(found.extend(&[8000, 8000]), [8000, 8000, 8000, 8000].as_slice());
    }

    #[test]
    fn resources_that_all_types_have_are_not_divided() {
        let found = portions(&[&[500], &[4000]], &[&[4000], &[8000], &[-100]]);
        assert_eq!(found.extend(&[4000]), [4000].as_slice());
    }

    #[test]
    fn portions_that_no_type_holds_have_no_row() {
        let found = portions(&[&[1000], &[2000], &[16_000]], &[&[0], &[8000]]);
        assert_eq!(found.extend(&[8000]), [8000, 8000].as_slice());
    }

    #[test]
    fn no_requests_have_no_portions() {
        assert_eq!(portions(&[], &[&[0], &[8000]]).extend(&[8000]), [8000].as_slice());
    }
}
