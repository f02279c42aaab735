#!/usr/bin/env bash
# Builds the documentation as docs.rs does, with all features and its own configuration flag, and then that of private items, which is
# what a contributor reads. A broken link is an error in either.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

# docs.rs sets DOCS_RS, which build scripts may ask for.
DOCS_RS=1 RUSTDOCFLAGS='--cfg docsrs -D warnings' cargo doc --workspace --all-features --no-deps
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --all-features --no-deps --document-private-items
