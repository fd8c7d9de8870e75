#!/bin/sh
# Tests for which cards the build includes CUDA, with a stand-in for the driver.
# Usage: cuda_choice.sh CMAKE GENERATOR SOURCE
set -eu
cmake=$1 generator=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(choice LANGUAGES CXX)
include($source/cmake/Cuda.cmake)
END
unset CUDAARCHS

# expect WORDS CARDS FLAG...: with a driver that shows these cards, cmake ends a line with these words. The build folder
# keeps what cmake has found out about the compilers, which takes most of the time, but no choice.
mkdir "$work/driver"
log=$work/log
expect() {
    words=$1 cards=$2
    shift 2
    printf '#!/bin/sh\nprintf "%s"\n' "$cards" >"$work/driver/nvidia-smi"
    chmod +x "$work/driver/nvidia-smi"
    PATH="$work/driver:$PATH" "$cmake" -G "$generator" -S "$work/project" -B "$work/build" \
        -U TOWERS_CUDA -U CMAKE_CUDA_ARCHITECTURES "$@" >"$log" 2>&1 || {
        echo "FAILED: cards '$cards', $*: cmake fails" >&2
        cat "$log" >&2
        exit 1
    }
    if ! grep -qe "$words\$" "$log"; then
        echo "FAILED: cards '$cards', $*: not '$words' but" >&2
        cat "$log" >&2
        exit 1
    fi
    grep -F "CUDA backend" "$log" || true
}

[ -e /proc/driver/nvidia/gpus ] || expect "-DTOWERS_CUDA=ON, builds it for all cards" ""
expect "left out, TOWERS_CUDA is OFF" '9.0\n' -DTOWERS_CUDA=OFF
if ! command -v nvcc >/dev/null; then
    expect "left out, no working nvcc 12 or newer is on PATH" '9.0\n'
    echo "SKIPPED with nvcc: there is none"
    exit
fi
expect " for 75-real 80-real 86-real 89-real 90" "" -DTOWERS_CUDA=ON
CUDAARCHS=80 expect " for 80" '9.0\n'
CUDAARCHS='' expect " for 90" '9.0\n'
expect " for 90" '9.0\n' -DCMAKE_CUDA_ARCHITECTURES=
expect " for 86 90" '8.6\n9.0\n9.0\n7.0\n'
expect " for 90-virtual" '99.0\n' # a card of the future
expect " for 80" "" -DCMAKE_CUDA_ARCHITECTURES=80
expect "compute capability below 7.5" '6.1\n'
