//! Any text as a quantity: what can be read is read again from what is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeless_model::Quantity;

fuzz_target!(|text: &str| {
    let Ok(quantity) = text.parse::<Quantity>() else { return };
    for written in [quantity.to_decimal_string(), quantity.to_binary_string()] {
        assert_eq!(written.parse(), Ok(quantity), "{text:?} is written {written:?}");
    }
});
