#!/usr/bin/env bash
# Compiles examples/kernels/cutlass_grouped_gemm.cu to a cubin for the example grouped_gemm. Needs no GPU and no CUDA toolkit:
# compiler and headers come from PyPI (ci/venv-cuda.sh).
# usage: ci/build-cutlass.sh [OUTPUT]     (OUTPUT: beside the source)
#   ARCH       what to compile for; the cubin runs on that architecture alone   [sm_90]
#   CUDA_VENV  the Python environment                                           [.venv/cuda]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/examples/kernels/cutlass_grouped_gemm.cu
output=${1:-${source%.cu}.cubin}

paths=$("$root/ci/venv-cuda.sh" "${CUDA_VENV:-$root/.venv/cuda}")
eval "$paths"
mkdir -p "$(dirname "$output")"
# Under another name first: an output that is there is whole.
"$NVCC" -std=c++17 -O3 -arch="${ARCH:-sm_90}" -cubin --expt-relaxed-constexpr -Werror all-warnings \
    -isystem "$CUTLASS_INCLUDE" -o "$output.part" "$source"
mv "$output.part" "$output"
echo "$output: $(stat -c %s "$output") bytes for ${ARCH:-sm_90}"
