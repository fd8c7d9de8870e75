#!/bin/sh
# From a bare Debian 13 on another processor: builds the program and the tests of kernels and engine for arm64, warnings
# as errors, then runs these under qemu-user on the CPU, as a small board's processor and as one with SVE, and trains.
#   tests/os/arm64.sh [PROGRAM]
# PROGRAM, named from the repository's root, is a build of the program for this processor, whose initial values and
# images must be arm64's, bit for bit. Needs root. Changes the system: libdnnl-dev:arm64 takes the place of libdnnl-dev,
# so build PROGRAM before, and best run this where clean_debian.bash does.
set -eu
program=${1-}
cd "$(dirname "$0")/../.."

sh tests/os/arm64_libraries.sh
cmake --preset arm64 >/dev/null
cmake --build --preset arm64 --target towers conformance_tests backend_tests engine_tests # what runs below
file=build/arm64/towers
case $(od -An -tx1 -j18 -N2 $file) in *b7\ 00*) ;; *) echo "$file is not for arm64" >&2; exit 1 ;; esac

export CUDA_VISIBLE_DEVICES="" VK_DRIVER_FILES=/nonexistent # CPU only
# run_tests CPU ENTRIES: runs these entries of ctest on an emulated processor
run_tests() {
    export QEMU_CPU=$1
    log=build/arm64/$1.log
    qemu-aarch64 $file devices >"$log"
    grep '^cpu' "$log"
    ctest --test-dir build/arm64 --parallel 2 --no-tests=error -R "^($2)\$" --output-on-failure >"$log" || { cat "$log"; exit 1; }
    grep 'Test *#' "$log"
}
# oneDNN has different kernels for processors with SVE, such as Grace and DGX Spark, and without, such as those of
# Raspberry Pi and Jetson Orin. What uses them runs on both; what no processor changes does not run here at all, since
# emulation takes ten times as long.
run_tests neoverse-n2 'conformance(_convolutions)?|engine_(layers|optimizers|step)'
run_tests cortex-a76 'conformance(_convolutions)?|backends|engine_(data|layers|optimizers|run|step|train)'
if [ -n "$program" ]; then
    sh tests/os/same_bits.sh --start "$program" "qemu-aarch64 $file"
else
    echo "no PROGRAM to compare with"
fi
echo "arm64: $(aarch64-linux-gnu-g++ --version | head -1): no warnings, conformance and engine tests pass under qemu"
