#!/bin/sh
# Builds the program with GCC and with clang, warnings as errors, runs the clang build's tests of kernels and engine
# on the CPU, and checks that both programs train the same bits.
#   tests/os/compilers.sh
# The builds are the presets PRESET (default: ci) and clang. It installs clang; the other packages are those of
# cmake/quickstart.sh. TOWERS_CUDA=ON, OFF or AUTO says whether GCC's build includes CUDA.
set -eu
cd "$(dirname "$0")/../.."
gcc=${PRESET:-ci}
if ! dpkg-query -W -f '${Status}\n' clang libomp-dev 2>/dev/null | grep -c 'ok installed' | grep -qx 2; then
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends clang libomp-dev >/dev/null
fi
cmake --preset "$gcc" ${TOWERS_CUDA:+"-DTOWERS_CUDA=$TOWERS_CUDA"} >/dev/null
cmake --build --preset "$gcc" --target towers
cmake --preset clang >/dev/null
cmake --build --preset clang --target towers conformance_tests backend_tests engine_tests # what runs below

export CUDA_VISIBLE_DEVICES="" VK_DRIVER_FILES=/nonexistent # CPU only
for tests in conformance backend engine; do
    echo "the $tests tests of clang's build"
    log=build/clang/${tests}_tests.log
    "build/clang/tests/${tests}_tests" --test-suite-exclude=slow >"$log" 2>&1 || { cat "$log"; exit 1; }
    grep 'test cases' "$log"
done
sh tests/os/same_bits.sh "build/$gcc/towers" build/clang/towers
echo "compilers: no warnings, and the same bits from $(g++ --version | head -1) and $(clang++ --version | head -1)"
