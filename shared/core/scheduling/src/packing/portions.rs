//! Resources that only some types have, and that some pods can use only on fewer types, such as two GPUs on one node.
//!
//! With one price for a GPU, a pod with one GPU is worth as much on a machine with four as on one with a single GPU, although only
//! the pods with two or four need the large machine. The same holds for a pod with one GPU and more memory than the cheapest
//! machines with a GPU have. So the linear program of [`crate::packing::resource_prices`] has another row for each list of types that hold
//! some of these pods: the amount that pods request which no other type holds, of which only the types of the list have any. Its
//! price is what these types cost beyond the others. Without such rows, their cpu and memory, which other pods use, would be
//! priced as if they were bought in addition.

use crate::dense;
use std::borrow::Cow;

/// More rows than this take longer than they improve prices.
const MAX_PORTIONS: usize = 5;

/// The maximum number of different requests that are compared.
const MAX_REQUESTS: usize = 200;

/// The pods that need one of the types that hold a pod.
#[derive(Debug)]
struct Portion {
    place: usize,
    /// The requests of that pod.
    example: Box<[i64]>,
    /// The capacity of the types with the resource that do not hold it.
    others: Vec<Box<[i64]>>,
    /// The number of types that hold that pod.
    types: usize,
}

impl Portion {
    fn new(place: usize, example: &[i64], types: &[&[i64]]) -> Self {
        let (holding, others): (Vec<&[i64]>, Vec<&[i64]>) = types
            .iter()
            .filter(|allocatable| allocatable[place] > 0)
            .partition(|allocatable| dense::fits(example, allocatable));
        Self {
            place,
            example: example.into(),
            others: others.into_iter().map(Into::into).collect(),
            types: holding.len(),
        }
    }

    fn needs(&self, requests: &[i64]) -> bool {
        requests[self.place] > 0 && !self.others.iter().any(|allocatable| dense::fits(requests, allocatable))
    }

    fn is_on(&self, allocatable: &[i64]) -> bool {
        dense::fits(&self.example, allocatable)
    }
}

/// The portions of resources that need fewer types than the smallest request, by resource.
#[derive(Debug, Default)]
pub(crate) struct Portions(Vec<Portion>);

impl Portions {
    /// The portions of the resources that only some types have, from the requests of the pods and the capacity of the types.
    pub(crate) fn new(requests: &[&[i64]], types: &[&[i64]]) -> Self {
        let width = requests.first().map_or(0, |requests| requests.len());
        let mut portions = Vec::new();
        for place in (0..width).filter(|place| types.iter().any(|allocatable| allocatable[*place] == 0)) {
            let mut asked: Vec<&[i64]> = requests.iter().copied().filter(|asked| asked[place] > 0).collect();
            asked.sort_unstable();
            asked.dedup();
            asked.truncate(MAX_REQUESTS);
            let mut own: Vec<Portion> = asked.iter().map(|asked| Portion::new(place, asked, types)).collect();
            // The requests that most types hold first; those that no type holds, or all with the resource, have no row.
            own.retain(|portion| portion.types > 0 && !portion.others.is_empty());
            own.sort_by(|a, b| (b.types, &a.others).cmp(&(a.types, &b.others)));
            own.dedup_by(|a, b| a.others == b.others);
            portions.append(&mut own);
        }
        // The largest portions of each resource need the most expensive types.
        while portions.len() > MAX_PORTIONS {
            portions.remove(portions.len() / 2);
        }
        Self(portions)
    }

    /// The amounts of a type, and after them those that are in each portion.
    pub(crate) fn of_type<'r>(&self, allocatable: &'r [i64]) -> Cow<'r, [i64]> {
        self.extend(allocatable, |portion| portion.is_on(allocatable))
    }

    /// The amounts of a pod, and after them those that are in each portion.
    pub(crate) fn of_pod<'r>(&self, requests: &'r [i64]) -> Cow<'r, [i64]> {
        self.extend(requests, |portion| portion.needs(requests))
    }

    fn extend<'r>(&self, amounts: &'r [i64], is_in: impl Fn(&Portion) -> bool) -> Cow<'r, [i64]> {
        if self.0.is_empty() {
            return Cow::Borrowed(amounts);
        }
        let portions = self.0.iter().map(|portion| if is_in(portion) { amounts[portion.place] } else { 0 });
        Cow::Owned(amounts.iter().copied().chain(portions).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_portion_above_the_smallest_is_a_row_of_its_own() {
        let types: [&[i64]; 4] = [&[4000, 0], &[8000, 1000], &[8000, 2000], &[8000, 8000]];
        let found = Portions::new(&[&[500, 1000], &[500, 4000], &[250, 2000], &[250, 0]], &types);
        assert_eq!(found.of_pod(&[500, 1000]), [500, 1000, 0, 0].as_slice());
        assert_eq!(found.of_pod(&[500, 2000]), [500, 2000, 2000, 0].as_slice());
        assert_eq!(found.of_pod(&[500, 4000]), [500, 4000, 4000, 4000].as_slice());
        assert_eq!(found.of_pod(&[500, 0]), [500, 0, 0, 0].as_slice());
        assert_eq!(found.of_type(&[8000, 1000]), [8000, 1000, 0, 0].as_slice());
        assert_eq!(found.of_type(&[8000, 2000]), [8000, 2000, 2000, 0].as_slice());
        assert_eq!(found.of_type(&[8000, 8000]), [8000, 8000, 8000, 8000].as_slice());
    }

    #[test]
    fn a_pod_that_needs_a_larger_type_for_its_memory_is_in_a_portion() {
        let types: [&[i64]; 3] = [&[16_000, 0], &[8000, 1000], &[16_000, 1000]];
        let found = Portions::new(&[&[4000, 1000], &[9000, 1000], &[10_000, 0]], &types);
        assert_eq!(found.of_pod(&[4000, 1000]), [4000, 1000, 0].as_slice());
        assert_eq!(found.of_pod(&[9000, 1000]), [9000, 1000, 1000].as_slice());
        assert_eq!(found.of_pod(&[10_000, 0]), [10_000, 0, 0].as_slice());
        assert_eq!(found.of_type(types[0]), [16_000, 0, 0].as_slice());
        assert_eq!(found.of_type(types[1]), [8000, 1000, 0].as_slice());
        assert_eq!(found.of_type(types[2]), [16_000, 1000, 1000].as_slice());
    }

    #[test]
    fn resources_that_all_types_have_are_not_divided() {
        let found = Portions::new(&[&[500], &[4000]], &[&[4000], &[8000], &[-100]]);
        assert_eq!(found.of_pod(&[4000]), [4000].as_slice());
    }

    #[test]
    fn portions_that_no_type_holds_have_no_row() {
        let found = Portions::new(&[&[1000], &[2000], &[16_000]], &[&[0], &[1000], &[8000]]);
        assert_eq!(found.of_type(&[8000]), [8000, 8000].as_slice());
        assert_eq!(found.of_type(&[1000]), [1000, 0].as_slice());
    }

    #[test]
    fn no_requests_have_no_portions() {
        assert_eq!(Portions::new(&[], &[&[0], &[8000]]).of_type(&[8000]), [8000].as_slice());
    }

    #[test]
    fn there_are_few_rows() {
        let types: Vec<Vec<i64>> = (0..20).map(|size| vec![size * 1000]).collect();
        let requests: Vec<Vec<i64>> = (1..20).map(|size| vec![size * 1000]).collect();
        let slices = |all: &'static [Vec<i64>]| all.iter().map(|one| &one[..]).collect::<Vec<_>>();
        let found = Portions::new(&slices(requests.leak()), &slices(types.leak()));
        assert_eq!(found.of_type(&[19_000]).len(), 1 + MAX_PORTIONS);
    }
}
