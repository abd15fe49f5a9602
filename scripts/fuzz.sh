#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS (60), without cargo-fuzz: libFuzzer needs the coverage instrumentation of a nightly compiler.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${FUZZ_SECONDS:-60}

# The lock file is of its own workspace, so no other build notices that it is out of date.
cargo metadata --locked --format-version 1 >/dev/null

if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
  exec python3 ../tests/tools/results.py nightly fuzz "the fuzz targets need a nightly compiler (rustup toolchain install nightly)"
fi
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
-Ccodegen-units=1 -Cdebug-assertions"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../target}/fuzz CARGO_INCREMENTAL=0
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target the instrumentation is for the fuzz targets and what they link, not for build scripts and macros.
cargo +nightly build --locked --release --target "$host" --bins
pids=()
for target in fuzz_targets/*.rs; do
  name=$(basename "$target" .rs)
  found=$CARGO_TARGET_DIR/found/$name
  mkdir -p "$found"
  "$CARGO_TARGET_DIR/$host/release/$name" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$found/" >"$found/log" 2>&1 &
  pids+=("$!:$name")
done
failed=0
for pid in "${pids[@]}"; do
  if ! wait "${pid%%:*}"; then
    name=${pid##*:}
    echo "The fuzz target $name failed; the input is in $CARGO_TARGET_DIR/found/$name:"
    tail -n 30 "$CARGO_TARGET_DIR/found/$name/log"
    failed=1
  fi
done
grep -H 'stat::number_of_executed_units' "$CARGO_TARGET_DIR"/found/*/log || failed=1
exit $failed
