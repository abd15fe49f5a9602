//! A plan with less work than the options allow.

use super::Prepared;
use crate::problem::Problem;
use crate::problem::solution::Solution;

impl Prepared<'_> {
    /// [`Self::solve`] with [`crate::Options::max_work`] at most `max_work`.
    #[must_use]
    pub fn solve_within(&mut self, problem: &Problem<'_>, max_work: u64) -> Solution {
        let own = self.options.max_work;
        self.options.max_work = Some(own.map_or(max_work, |own| own.min(max_work)));
        let solution = self.solve(problem);
        self.options.max_work = own;
        solution
    }
}
