#!/usr/bin/env bash
# Runs what ci/gpu-bundle.sh built, on a machine with an NVIDIA GPU: the tests; the same in front of a driver of which every call fails
# once; the example with each of its consumers; the comparison with what people use; and compute-sanitizer (memcheck, initcheck, racecheck,
# synccheck) over tests and example. Needs the driver, NVRTC and cuBLAS, and for two of the peers a python3 with PyTorch and CuPy; neither
# Rust nor a network. Under fifteen minutes, and the soak.
# usage: ci/gpu-run.sh [RESULTS] [BUNDLE]
#   RESULTS   where the output of every step goes                  [docs/results of the repository, or results of the bundle]
#   BUNDLE    the folder that was built   [the script's own folder if it is a bundle, else gpu-bundle of the repository]
#   CUDA_HOME a CUDA toolkit to prefer over those found
#   PEERS     more options of the comparison, such as --quick
#   STEPS     which of them: tests, failures, examples, peers, copies, sanitizers   [all]
#   SOAK      how many seconds everything runs at once, for a run that shows that nothing is left behind: 300  [4, among the tests]
# Ends with one summary; exits non-zero when a step failed, or when there is no GPU. A step that could not run (no
# compute-sanitizer, say) is reported as not run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [ -f "$here/manifest.txt" ]; then
    bundle=${2:-$here}
    results=${1:-$here/results}
else
    bundle=${2:-$here/../gpu-bundle}
    results=${1:-$here/../docs/results}
fi
[ -f "$bundle/manifest.txt" ] || {
    echo "$bundle is no bundle: build one with ci/gpu-bundle.sh" >&2
    exit 1
}
mkdir -p "$results"
bundle=$(cd "$bundle" && pwd)
results=$(cd "$results" && pwd)

own_library_path=${LD_LIBRARY_PATH:-}
# Toolkits and Python's NVIDIA packages, wherever the loader does not look by itself.
libraries=()
for dir in "${CUDA_HOME:+$CUDA_HOME/lib64}" /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/local/cuda*/targets/*/lib; do
    if [ -n "$dir" ] && [ -d "$dir" ]; then libraries+=("$dir"); fi
done
if command -v python3 >/dev/null; then
    while read -r dir; do libraries+=("$dir"); done < <(python3 - <<'PYTHON'
import glob, site, sys
roots = dict.fromkeys([*site.getsitepackages(), site.getusersitepackages(), *sys.path])
for root in filter(None, roots):
    for folder in sorted(glob.glob(root + "/nvidia/*/lib")):
        print(folder)
PYTHON
    )
fi
LD_LIBRARY_PATH=$(IFS=:; echo "${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${libraries[*]:-}")
export LD_LIBRARY_PATH RUST_BACKTRACE=1

sanitizer=
for candidate in "${CUDA_HOME:+$CUDA_HOME/bin/compute-sanitizer}" "$(command -v compute-sanitizer || true)" \
    /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda-*/bin/compute-sanitizer; do
    if [ -z "$sanitizer" ] && [ -x "$candidate" ]; then sanitizer=$candidate; fi
done

# Every step has a limit, and all together this one, in seconds.
soak=${SOAK:-0}
unset SOAK # of the tests beside it
deadline=$((900 + soak))
summary=()
failures=0
statuses=$(mktemp -d)
python=$(mktemp)
trap 'rm -rf "$statuses" "$python"' EXIT

# begin NAME SECONDS COMMAND..: runs it beside others, keeps its output.
begin() {
    local name=$1 limit=$2
    shift 2
    if [ "$limit" -gt $((deadline - SECONDS)) ]; then limit=$((deadline - SECONDS)); fi
    printf '\n== %s: %s\n' "$name" "$*"
    if [ "$limit" -lt 1 ]; then
        echo "no time left" >"$results/$name.txt"
        echo "124 0 0" >"$statuses/$name"
        return
    fi
    (
        status=0 start=$SECONDS
        timeout --kill-after=5 "$limit" "$@" >"$results/$name.txt" 2>&1 || status=$?
        echo "$status $((SECONDS - start)) $limit" >"$statuses/$name"
    ) &
}

# conclude NAME: once it has ended, notes how it went.
conclude() {
    local name=$1 status seconds limit
    read -r status seconds limit <"$statuses/$name"
    # Results are kept: no folders of the machine in them.
    sed -i "s|$bundle/||g; s|$results/||g" "$results/$name.txt"
    tail -n 25 "$results/$name.txt"
    local verdict=ok
    case $status in
    0) ;;
    124 | 137) verdict="FAILED: over $limit s" ;;
    *) verdict="FAILED: exit $status" ;;
    esac
    if [ "$status" -ne 0 ]; then failures=$((failures + 1)); fi
    local said
    said=$(grep -hE '^test result:|(ERROR|RACECHECK) SUMMARY' "$results/$name.txt" | tail -n 1 || true)
    summary+=("$(printf '%-22s %-22s %4d s  %s' "$name" "$verdict" "$seconds" "$said")")
}

# step NAME SECONDS COMMAND..: runs it, keeps its output, notes how it went.
step() {
    begin "$@"
    wait
    conclude "$1"
}

# Whether the steps of that kind are asked for.
wants() { [[ " ${STEPS:-tests failures examples peers copies sanitizers} " == *" $1 "* ]]; }

not_run() {
    printf '\n== %s: not run, %s\n' "$1" "$2"
    summary+=("$(printf '%-22s %s' "$1" "not run: $2")")
}

machine() {
    if command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=index,name,driver_version,memory.total,compute_cap --format=csv || true
    else
        echo "no nvidia-smi"
    fi
    echo "date: $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    grep -vE '^[0-9a-f]{64} ' "$bundle/manifest.txt"
    if [ -n "$sanitizer" ]; then "$sanitizer" --version | tail -n 1; fi
}
machine | tee "$results/machine.txt"

cd "$bundle"
if wants tests; then
    for test in tests/*; do
        name=$(basename "$test")
        if [ "$name" != cuda ]; then step "host-$name" 30 "$test"; fi
    done
    step cuda 150 tests/cuda
    # Without a device the tests report themselves as not run, which is no pass here.
    if grep -q '^test result: ok\. 0 passed' "$results/cuda.txt"; then
        summary[-1]=$(printf '%-22s FAILED: no test ran on a GPU' cuda)
        failures=$((failures + 1))
    fi
fi

if [ "$soak" -gt 0 ]; then
    step soak $((soak + 60)) env SOAK="$soak" tests/cuda cuda::soak:: --nocapture
    if grep -q '^test result: ok\. 0 passed' "$results/soak.txt"; then
        summary[-1]=$(printf '%-22s FAILED: no test ran on a GPU' soak)
        failures=$((failures + 1))
    fi
else
    not_run soak "SOAK=300 asks for it"
fi

# The driver that fails when it is told to is found first.
if wants failures; then
    step failures 200 env LD_LIBRARY_PATH="$bundle/failing-driver:$LD_LIBRARY_PATH" RUST_BACKTRACE=0 tests/cuda cuda::failures:: --nocapture
    if grep -q '^test result: ok\. 0 passed' "$results/failures.txt"; then
        summary[-1]=$(printf '%-22s FAILED: no test ran' failures)
        failures=$((failures + 1))
    fi
fi

if wants examples; then
    if [ -x grouped_gemm ]; then
        step example 90 ./grouped_gemm --backend cuda --require-all
    else
        not_run example "not in the bundle"
    fi
    step layers 30 ./layers
    step decode 30 ./decode
    step two-devices 30 ./two_devices
fi

if wants peers; then
    # Its tables, data and plots are results too: peers.md, peers.json, *.svg. PyTorch and CuPy find their own libraries.
    printf '#!/usr/bin/env bash\nLD_LIBRARY_PATH=%q exec python3 "$@"\n' "$own_library_path" >"$python"
    chmod +x "$python"
    read -ra peers_options <<<"${PEERS:-}"
    step peers 240 ./peers --out "$results" --python "$python" --commit "$(sed -n 's/^commit: //p' manifest.txt)" \
        "${peers_options[@]}"
fi
if wants copies; then step bench-copies 90 ./bench-copies; fi

# All tests but those of failures, and the example, under each tool; the tools beside each other. Errors that the driver returns are what
# some tests are about: the tools report what kernels and copies do.
if wants sanitizers && [ -n "$sanitizer" ]; then
    begun=()
    for tool in memcheck initcheck racecheck synccheck; do
        checked=(env WATCHED=1 RUST_BACKTRACE=0 "$sanitizer" --tool "$tool" --error-exitcode 9)
        if [ "$tool" = memcheck ]; then checked+=(--report-api-errors no); fi
        # The soak's launches from many threads are more than racecheck keeps up with: it says so, as an error of its own.
        skipped=()
        if [ "$tool" = racecheck ]; then skipped=(--skip cuda::soak::); fi
        # Under initcheck the host is slower than the stream that this test keeps busy.
        if [ "$tool" = initcheck ]; then skipped=(--skip exhausted_staging_waits); fi
        begin "$tool" 420 "${checked[@]}" tests/cuda --skip cuda::failures:: "${skipped[@]}"
        begun+=("$tool")
        if [ -x grouped_gemm ]; then
            begin "$tool-example" 120 "${checked[@]}" ./grouped_gemm --backend cuda --consumers nvrtc --small
            begun+=("$tool-example")
        fi
    done
    wait
    for name in "${begun[@]}"; do conclude "$name"; done
elif wants sanitizers; then
    not_run sanitizers "no compute-sanitizer"
fi

{
    echo
    echo "==== summary"
    cat "$results/machine.txt"
    printf '%s\n' "${summary[@]}"
    if [ "$failures" -eq 0 ]; then echo "all steps that ran are right, in $SECONDS s"; else echo "$failures FAILED, in $SECONDS s"; fi
} | tee -a "$results/summary.txt"
[ "$failures" -eq 0 ]
