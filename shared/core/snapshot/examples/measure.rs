//! How long exports take to read: `cargo run --release -p nodeless-snapshot --example measure -- FILE...`
//!
//! Prints milliseconds of this process's processor time, the best of three, so that what else runs does not count much.

use nodeless_snapshot::Reader;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let mut best = f64::INFINITY;
        let mut objects = 0;
        for _ in 0..3 {
            let before = processor_milliseconds()?;
            let mut reader = Reader::default();
            reader.read(&path, &bytes);
            objects = reader.finish().objects;
            best = best.min(processor_milliseconds()? - before);
        }
        println!("{path}: {} MB, {objects} objects, {best:.0} ms", bytes.len() / 1_000_000);
    }
    Ok(())
}

/// What the kernel states that this process has computed so far (Linux).
fn processor_milliseconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = text.split_whitespace().next().ok_or("/proc/self/schedstat is empty")?.parse()?;
    Ok(nanoseconds / 1e6)
}
