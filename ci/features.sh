#!/usr/bin/env bash
# Checks the library under every set of its features, with warnings denied: no set may fail to build or leave something unused.
set -euo pipefail
cd "$(dirname "$0")/.."
eval "$(ci/tools.sh)"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

# Clippy is what the other checks build with: its artefacts are used again. `default` is no more than a set that comes anyway.
cargo hack clippy --package marshal --lib --feature-powerset --exclude-features default --quiet -- -D warnings
