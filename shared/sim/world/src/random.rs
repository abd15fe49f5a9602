//! Reproducible random numbers: the same seed results in the same numbers on every machine.

/// A random number generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator with a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for one purpose, so that drawing more numbers for it does not change those of others.
    #[must_use]
    pub fn for_purpose(seed: u64, purpose: &str) -> Self {
        let mixed = purpose.bytes().fold(seed ^ 0x51_7c_c1_b7_27_22_0a_95, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5)
        });
        let mut random = Self::new(mixed);
        random.draw();
        random
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The upper half of the product is uniform within 64 bits, and needs no second draw.
        u64::try_from((u128::from(self.draw()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// A number from 0 to just below 1.
    pub fn fraction(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
        let numerator = (self.draw() >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }

    /// Whether an event with this probability occurs. A probability of 0 draws nothing.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// One of these items.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(u64::try_from(from.len()).ok()?)).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_with_their_seed_and_purpose() {
        let draws = |mut random: Random| (0..20).map(|_| random.below(1000)).collect::<Vec<_>>();
        assert_eq!(draws(Random::for_purpose(7, "spot")), draws(Random::for_purpose(7, "spot")));
        assert_ne!(draws(Random::for_purpose(7, "spot")), draws(Random::for_purpose(8, "spot")));
        assert_ne!(draws(Random::for_purpose(7, "spot")), draws(Random::for_purpose(7, "jobs")));
        let mut random = Random::new(1);
        let hits = (0..10_000).filter(|_| random.happens(0.25)).count();
        assert!((2_200..2_800).contains(&hits), "{hits}");
        assert!((0..1_000).all(|_| random.below(3) < 3) && random.below(0) == 0);
    }
}
