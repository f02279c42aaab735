#!/usr/bin/env bash
# Checks the dependencies against deny.toml: licences, duplicates, sources; and known faults, where the advisory database can be
# reached: it is a git repository, and without it that part is said to be not checked.
set -euo pipefail
cd "$(dirname "$0")/.."
eval "$(ci/tools.sh)"

cargo deny --all-features check licenses bans sources
if timeout 20 git ls-remote --exit-code https://github.com/rustsec/advisory-db HEAD >/dev/null 2>&1; then
    cargo deny --all-features check advisories
else
    echo 'advisories: NOT CHECKED, the advisory database is out of reach'
fi
