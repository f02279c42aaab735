#!/usr/bin/env bash
# Makes a Python environment with NVIDIA's compiler, NVRTC and the headers of CUTLASS, all from PyPI at fixed versions, where
# it is not there yet. No driver and no GPU are needed. Prints where things are, for `eval`:
#     NVCC, CUDA_INCLUDE, CUTLASS_INCLUDE, NVRTC_LIBRARY
# With --nvrtc it gets NVRTC and CUDA's headers alone, into .venv/nvrtc, and prints NVRTC_LIBRARY and CUDA_INCLUDE.
# usage: ci/venv-cuda.sh [--nvrtc] [DIR]      (DIR: .venv/cuda of the repository)
set -euo pipefail

kind=cuda
if [ "${1:-}" = --nvrtc ]; then
    kind=nvrtc
    shift
fi

root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-$root/.venv/$kind}
packages=(
    nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 # nvcc, its device compiler, its headers
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85                  # the headers that kernels include
    nvidia-cuda-nvrtc==13.0.88                                              # the compiler as a library
    nvidia-cutlass==4.2.0.0                                                 # the headers of CUTLASS
)

if [ "$kind" = nvrtc ]; then
    # The headers of the small floats include no other package's under NVRTC.
    packages=(nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96)
fi

# Written last: an environment without it is unfinished, or of other versions.
stamp=$dir/packages.txt
if [ "$(cat "$stamp" 2>/dev/null)" != "${packages[*]}" ]; then
    echo "making a Python environment in $dir" >&2
    if [ -n "$(ls -A "$dir" 2>/dev/null)" ] && [ ! -f "$dir/pyvenv.cfg" ]; then
        echo "$dir is not empty and no Python environment: nothing was done" >&2
        exit 1
    fi
    python3 -m venv --clear "$dir" >&2
    # Without dependencies: CUTLASS's would bring its Python front end.
    "$dir/bin/pip" install --quiet --disable-pip-version-check --no-deps "${packages[@]}" >&2
    echo "${packages[*]}" >"$stamp"
fi

site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cuda=$site/nvidia/cu13
printf 'NVRTC_LIBRARY=%q\n' "$cuda/lib/libnvrtc.so.13"
printf 'CUDA_INCLUDE=%q\n' "$cuda/include"
[ "$kind" = nvrtc ] && exit
printf '%s=%q\n' \
    NVCC "$cuda/bin/nvcc" \
    CUTLASS_INCLUDE "$site/cutlass_library/source/include"
