#!/usr/bin/env bash
# Changes one operator, condition or body at a time in the files where a mistake would be silent, and runs the host's tests on each
# change: one that no test notices is a test that is missing. Works on a copy.
# Not part of .ci/run: it takes two hours on two cores. docs/mutants.md says what was found. Needs `cargo install --locked cargo-mutants`.
# usage: ci/mutants.sh [OUT] [CARGO-MUTANTS ARGUMENTS]    (OUT: target/mutants)
#   --iterate               only what the last run did not catch
#   --file marshal/src/pack.rs   one file alone
#   ALL=1                   with the slow tests too: for what is left after a first run
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo mutants --version >/dev/null 2>&1; then
    echo 'mutants: NOT RUN, `cargo install --locked cargo-mutants` brings what is missing' >&2
    exit 1
fi
out=${1:-target/mutants}
shift || true
mkdir -p "$out"

files=()
if [[ " $* " != *' --file '* ]]; then
    for file in layout cursor pack staging room slots session cache graph; do files+=(--file "marshal/src/$file.rs"); done
fi
# These tests take most of the time, and what they catch others catch as a rule.
skipped=()
if [ -z "${ALL:-}" ]; then
    skipped=(every_call_may_fail everything_at_once ten_thousand a_base_that_is_little a_thousand_refreshes copies:: backend:: random
        exhausted_staging_waits a_thousand_sets)
fi
cargo mutants --package marshal --no-default-features --features derive --timeout 60 --output "$out" "${files[@]}" "$@" \
    --cargo-arg=--lib --cargo-arg=--test=host --cargo-arg=--test=layout --cargo-arg=--test=messages \
    -- -- "${skipped[@]/#/--skip=}"
