#!/usr/bin/env bash
# Checks that the library builds with the lowest version of each direct dependency that its Cargo.toml allows: a bound that is too low
# is a build that fails for a user. The dependencies' own dependencies are as they resolve: their bounds are not ours.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=${CARGO_TARGET_DIR:-$root/target}/minimal-versions
export CARGO_TARGET_DIR=$work/target

# A copy: the lock file of the repository stays as it is.
rm -rf "$work/source"
mkdir -p "$work/source"
cd "$root"
git ls-files -z --cached --others --exclude-standard |
    tar --create --null --files-from - --ignore-failed-read | tar --extract --directory "$work/source"
cd "$work/source"

# The resolver's flag is not stable yet: for this one call.
RUSTC_BOOTSTRAP=1 cargo -Z direct-minimal-versions generate-lockfile
cargo tree --workspace --depth 1 --edges normal --all-features
cargo check --workspace --all-features
