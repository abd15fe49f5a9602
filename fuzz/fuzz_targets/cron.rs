//! Any text as a schedule: its next start is later, and the next after the instant before it.
#![no_main]

use jiff::{Timestamp, ToSpan};
use libfuzzer_sys::fuzz_target;
use nodeless_model::cron::Cron;

fuzz_target!(|input: (&str, u32)| {
    let (text, seconds) = input;
    let Ok(cron) = text.parse::<Cron>() else { return };
    let time = Timestamp::from_second(i64::from(seconds)).expect("within range");
    let Some(next) = cron.next_after(time) else { return };
    assert!(next > time, "{text:?} after {time}: {next}");
    assert_eq!(cron.next_after(next - 1.second()), Some(next), "{text:?}");
});
