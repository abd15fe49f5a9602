//! Measures the time to read exports: `cargo run --release -p nodeless-snapshot --example measure-exports -- FILE...`
//!
//! Prints milliseconds of processor time of this process, the best of three, which other processes hardly affect.

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

/// The processor time of this process so far (Linux).
fn processor_milliseconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = text.split_whitespace().next().ok_or("/proc/self/schedstat is empty")?.parse()?;
    Ok(nanoseconds / 1e6)
}
