#!/usr/bin/env bash
# Compares the public surface of the library with the listing in the repository, docs/public-api.txt, one item a line, all features
# on. A change that was not meant is an error; with --write the listing is written anew, to be read in the diff.
# usage: ci/public-api.sh [--write]
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
listing=docs/public-api.txt

# rustdoc writes data only as an unstable option: allowed to rustdoc alone, so that nothing else is built otherwise than it ships.
RUSTDOC=ci/public-api/rustdoc cargo rustdoc --quiet --package marshal --lib --all-features -- \
    -Z unstable-options --output-format json
now=$CARGO_TARGET_DIR/public-api.txt
cargo run --quiet --locked --manifest-path ci/public-api/Cargo.toml -- "$CARGO_TARGET_DIR/doc/marshal.json" >"$now"

if [ "${1:-}" = --write ]; then
    cp "$now" "$listing"
elif ! diff --unified=0 "$listing" "$now"; then
    echo "the public surface has changed: if that is meant, ci/public-api.sh --write, and a line in CHANGELOG.md" >&2
    exit 1
fi
echo "public surface: $(wc -l <"$listing") items"
