#!/usr/bin/env bash
# Measures which lines of marshal and marshal-derive the host's tests run, and fails below 95 % of all. The CUDA backend is left out:
# it needs a GPU to run.
# docs/coverage.md says which lines are not run, and why: a file that has more of them is an error too.
# usage: ci/coverage.sh [--lines | --write]
#   --lines   lists the lines that no test runs
#   --write   writes the numbers of docs/coverage.md anew
set -euo pipefail
cd "$(dirname "$0")/.."
eval "$(ci/tools.sh)"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/coverage"
# Lines are what is counted: no more is written.
export CARGO_PROFILE_DEV_DEBUG=0
# The tools were built without zlib.
export RUSTFLAGS='-C llvm-args=--enable-name-compression=false'

cargo llvm-cov clean --workspace
cargo llvm-cov --no-report --package marshal --no-default-features --features derive,half,float8 \
    --lib --test layout --test messages --test host --test host_backend --test derive
cargo llvm-cov --no-report --package marshal-derive
# Of the properties what is not drawn anew each time.
cargo llvm-cov --no-report --package marshal --no-default-features --features derive,half,float8 --test properties -- corpus found
# tests and the sources of dependencies are no part of it; the macro's own tests are a file of their own
report=(--ignore-filename-regex '/tests/|/tests\.rs$|/backend/cuda/|/examples/|/benches/')
cargo llvm-cov report "${report[@]}" --lcov --output-path "$CARGO_TARGET_DIR/lines.info"
ci/coverage-table.py "$CARGO_TARGET_DIR/lines.info" "$@"
