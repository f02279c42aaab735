#!/usr/bin/env bash
# Builds what a machine with a GPU runs (ci/gpu-run.sh) into one folder: tests, examples, the comparison with
# what people use, and CUTLASS's kernel as a cubin.
# Needs Rust and Python here, and no GPU; the folder needs neither Rust nor a network there.
# usage: ci/gpu-bundle.sh [DIR]      (DIR: gpu-bundle of the repository)
#   ARCH       what CUTLASS's kernel is compiled for                                   [sm_90]
#   CUDA_VENV  the Python environment with NVIDIA's compiler, made where it is missing  [ci/venv-cuda.sh's own]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bundle=${1:-$root/gpu-bundle}
cd "$root"

# Under another name first: a folder that is there is whole.
part=$bundle.part
rm -rf "$part"
mkdir -p "$part/tests"

# The executables that `cargo test` and `cargo build` report, as lines `kind name source path`.
built() {
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        target = message["target"]
        print(target["kind"][0], target["name"], target["src_path"], message["executable"], sep="\t")
'
}

cargo test --release --package marshal --tests --no-run --message-format json-render-diagnostics | built |
    while IFS=$'\t' read -r kind name source path; do
        # Tests of the sources themselves stay where the sources are.
        if grep -qE 'CARGO_MANIFEST_DIR|trybuild|macrotest' "$source"; then continue; fi
        case $kind in
        lib) cp "$path" "$part/tests/unit" ;; # the unit tests
        test) cp "$path" "$part/tests/$name" ;;
        esac
    done
if [ ! -x "$part/tests/cuda" ]; then
    echo "no test binary named cuda was built" >&2
    exit 1
fi

cargo build --release --package marshal --examples --benches --message-format json-render-diagnostics | built |
    while IFS=$'\t' read -r kind name _ path; do
        case $kind-$name in
        example-grouped_gemm | example-layers | example-decode | example-two_devices) cp "$path" "$part/$name" ;;
        bench-peers) cp "$path" "$part/peers" ;;
        bench-copies) cp "$path" "$part/bench-copies" ;;
        esac
    done
# The driver that stands in front of the real one, under its name. What it does not have is looked up in the real one, so it is linked to
# that: here to an empty library of the same name.
front=$part/failing-driver
real=$(mktemp -d)
trap 'rm -rf "$real"' EXIT
mkdir "$front"
"${CC:-cc}" -shared -Wl,-soname,libcuda.so.1 -x c /dev/null -o "$real/libcuda.so.1"
cargo rustc --release --package failing-driver --crate-type cdylib --message-format json-render-diagnostics -- \
    -C link-arg=-Wl,--no-as-needed -C link-arg="$real/libcuda.so.1" |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("reason") == "compiler-artifact" and message["target"]["kind"] == ["cdylib"]:
        print(message["filenames"][0])
' | while read -r path; do cp "$path" "$front/libcuda.so"; done
if [ ! -f "$front/libcuda.so" ]; then
    echo "no failing driver was built" >&2
    exit 1
fi

find "$part" -type f -exec strip {} +

if [ -f examples/kernels/cutlass_grouped_gemm.cu ]; then
    # Beside the programs, where they look.
    ci/build-cutlass.sh "$part/cutlass_grouped_gemm.cubin"
fi

cp ci/gpu-run.sh "$part/"
{
    echo "commit: $(git rev-parse --verify --quiet HEAD 2>/dev/null || echo none)"
    echo "changed since: $(git status --porcelain 2>/dev/null | wc -l) files"
    echo "built: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "compiler: $(rustc --version)"
    (cd "$part" && find . -type f ! -name manifest.txt -exec sha256sum {} + | sort -k 2)
} >"$part/manifest.txt"

rm -rf "$bundle"
mv "$part" "$bundle"
bytes=$(du -sb "$bundle" | cut -f 1)
cat "$bundle/manifest.txt"
echo "$bundle: $((bytes >> 20)) MiB"
if [ "$bytes" -ge $((50 << 20)) ]; then
    echo "more than 50 MiB" >&2
    exit 1
fi
