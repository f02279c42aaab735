#!/usr/bin/env bash
# Measures what `#[derive(DeviceArgs)]` adds to a build, beside what `#[derive(Clone, Debug)]` adds to the same structs: 200 structs of
# 12 fields, release settings. Each crate is built several times and the least time counts. The bound is 1.5 of the processor
# time; with `--check` a larger ratio is an error.
# usage: ci/compile-time.sh [--check] [ROUNDS]      (ROUNDS: 7)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
check=
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi
rounds=${1:-7}
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}/compile-time"
work=$CARGO_TARGET_DIR/crates
kinds=(plain std device)

# `structs DERIVE`: the same structs under another derive.
structs() {
    echo '//! 200 structs of 12 fields.'
    echo '#![allow(dead_code)]'
    echo 'use marshal::DevicePointer;'
    for i in $(seq 200); do
        cat <<STRUCT
$1
pub struct Args$i<'a> {
    pub problem_sizes: &'a [[i32; 3]],
    pub ptr_a: Vec<DevicePointer<f32>>,
    pub ptr_b: Vec<DevicePointer<f32>>,
    pub ptr_c: Vec<Option<DevicePointer<f32>>>,
    pub ptr_d: Vec<DevicePointer<f32>>,
    pub lda: Vec<i64>,
    pub ldb: Vec<i64>,
    pub ldc: Vec<i64>,
    pub ldd: Vec<i64>,
    pub alpha: &'a [f32],
    pub flags: Vec<u8>,
    pub offsets: Vec<u32>,
}
STRUCT
    done
}

mkdir -p "$work"
printf '[workspace]\nresolver = "3"\nmembers = ["plain", "std", "device"]\n' >"$work/Cargo.toml"
cp "$root/Cargo.lock" "$work/Cargo.lock"
for kind in "${kinds[@]}"; do
    mkdir -p "$work/$kind/src"
    cat >"$work/$kind/Cargo.toml" <<MANIFEST
[package]
name = "compile-time-$kind"
version = "0.0.0"
edition = "2024"
[dependencies]
marshal = { path = "$root/marshal", default-features = false, features = ["derive"] }
MANIFEST
done
structs '' >"$work/plain/src/lib.rs"
structs '#[derive(Clone, Debug)]' >"$work/std/src/lib.rs"
structs '#[derive(marshal::DeviceArgs)]' >"$work/device/src/lib.rs"

cargo build --quiet --release --manifest-path "$work/Cargo.toml"

# Milliseconds of the wall clock and of the processor, one line a round.
TIMEFORMAT='%R %U %S'
for kind in "${kinds[@]}"; do : >"$work/$kind.times"; done
for _ in $(seq "$rounds"); do
    for kind in "${kinds[@]}"; do
        touch "$work/$kind/src/lib.rs"
        { time cargo build --quiet --release --offline --manifest-path "$work/Cargo.toml" -p "compile-time-$kind"; } 2>&1 |
            awk '{ printf "%d %d\n", $1 * 1000, ($2 + $3) * 1000 }' >>"$work/$kind.times"
    done
done

least() { cut -d' ' -f"$2" "$work/$1.times" | sort -n | head -1; }
ratio=
for column in 1 2; do
    plain=$(least plain $column) std=$(least std $column) device=$(least device $column)
    ratio=$(awk -v p="$plain" -v s="$std" -v d="$device" 'BEGIN { printf "%.2f", (d - p) / (s - p) }')
    unit=$([ $column = 1 ] && echo 'wall clock' || echo 'processor')
    echo "$unit: no derive $plain ms, Clone and Debug add $((std - plain)) ms, DeviceArgs adds $((device - plain)) ms: ratio $ratio"
done
if [ -n "$check" ]; then
    awk -v ratio="$ratio" 'BEGIN { exit !(ratio <= 1.5) }' || { echo 'the ratio is above 1.5' >&2; exit 1; }
fi
