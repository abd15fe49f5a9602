//! Deterministic pseudorandom numbers.

/// A small generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// A generator that returns the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.any() % end).unwrap_or(0)
    }

    /// A number in this range, including both ends.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// One of these values, of which there must be at least one.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.any() % 100 < u64::from(percent)
    }

    /// Between 0 and 1, both excluded.
    pub fn share(&mut self) -> f64 {
        ((self.any() >> 32) as f64 + 0.5) / 4_294_967_296.0
    }

    /// A log-normal number with this median and this standard deviation of the logarithm.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let (radius, angle) = ((-2.0 * self.share().ln()).sqrt(), self.share() * std::f64::consts::TAU);
        median * (sigma * radius * angle.cos()).exp()
    }
}
