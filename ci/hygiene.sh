#!/usr/bin/env bash
# Checks the crates that use the derive as strangers do: through a facade, under another name, without the standard library, with
# every lint denied.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
cargo clippy --quiet --manifest-path tests/hygiene/Cargo.toml --workspace -- -D warnings
