//! Properties of every text that is read as a schedule. The fuzz target in `fuzz/` asserts the same.

use jiff::{Timestamp, ToSpan};
use nodeless_model::cron::Cron;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Texts that are schedules, or nearly so.
fn schedule() -> impl Strategy<Value = String> {
    let field = || r"(\*|\?|[0-9]{1,2}|[0-9]{1,2}-[0-9]{1,2}|mon|JAN|[0-9]{1,2},[0-9]{1,2})(/[0-9]{1,2})?";
    prop_oneof![
        (field(), field(), field(), field(), field()).prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}")),
        prop::sample::select(vec![
            "@daily",
            "@hourly",
            "@weekly",
            "@monthly",
            "@yearly",
            "@every 5m",
            "TZ=UTC 0 0 * * *"
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn the_next_start_is_later_and_the_first(text in schedule(), seconds in 0..4_000_000_000_i64) {
        if let Ok(cron) = text.parse::<Cron>() {
            let time = Timestamp::from_second(seconds).unwrap();
            if let Some(next) = cron.next_after(time) {
                prop_assert!(next > time, "{} after {}: {}", text, time, next);
                prop_assert_eq!(cron.next_after(next - 1.second()), Some(next), "{}", text);
            }
        }
    }
}
