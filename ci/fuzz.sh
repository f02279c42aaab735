#!/usr/bin/env bash
# Fuzzes layouts, cache and derive with libFuzzer, on the host backend, under AddressSanitizer.
# usage: ci/fuzz.sh [SECONDS] [TARGET..]     (SECONDS: of all targets together, 60; TARGET: layout, cache, derive; all of them)
#   ARTIFACTS where an input goes that fails             [fuzz/artifacts]
# What is found anew goes to fuzz/found, which is not kept: merge it into fuzz/corpus by KEEP=1.
# Needs Rust and a C++ compiler; `cargo fuzz` is not needed, and finds the same targets.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then targets=(layout cache derive); fi
artifacts=${ARTIFACTS:-fuzz/artifacts}

if ! command -v "${CXX:-c++}" >/dev/null; then
    echo 'fuzz targets: NOT CHECKED, there is no C++ compiler'
    exit 0
fi

host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-target}/fuzz
# The instruments of cargo-fuzz. The sanitizer's runtime comes with the stable toolchain, its flag does not.
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address"
RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags --cfg fuzzing -Ccodegen-units=1" \
    cargo build --locked --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$target_dir" --bins

each=$((seconds / ${#targets[@]}))
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target" "fuzz/found/$target" "$artifacts/$target"
    binary=$target_dir/$host/release/$target
    printf '\n== %s, %s s\n' "$target" "$each"
    # A hang is a failure as a crash is. The streams' threads are no leak: they end with the process.
    ASAN_OPTIONS=detect_leaks=0 "$binary" -max_total_time="$each" -timeout=20 -rss_limit_mb=3000 -max_len=1024 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="$artifacts/$target/" \
        "fuzz/found/$target" "fuzz/corpus/$target"
    if [ -n "${KEEP:-}" ]; then
        ASAN_OPTIONS=detect_leaks=0 "$binary" -merge=1 -verbosity=0 "fuzz/corpus/$target" "fuzz/found/$target"
    fi
done
