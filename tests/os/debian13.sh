#!/usr/bin/env bash
# The README's two commands in a clean Debian 13, warnings being errors, and products by Vulkan's matrix units, which the
# newer Mesa of Debian's backports has. Then the builds with clang and for arm64, and the device tests with that Mesa,
# whose compilers also compile the kernels for chips that are not there.
# Usage: debian13.sh [--within S]: leaves out which of these would not end within S seconds. They take turns in being
# the first, by the number of commits.
set -euo pipefail
end=$((SECONDS + 86400))
if [ "${1-}" = --within ]; then end=$((SECONDS + $2)); fi
. "$(dirname "$0")/clean_debian.bash"
export PRESET=ci
make_root trixie
both_commands
newest_mesa() {
    printf '%s\n' 'deb http://deb.debian.org/debian trixie-backports main' \
        'deb-src http://deb.debian.org/debian trixie main' >"$root/etc/apt/sources.list.d/backports.list"
    in_root '
        apt-get update -q >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -t trixie-backports \
            mesa-vulkan-drivers >/dev/null
        TOWERS_NEEDS_MATRICES=1 VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json \
            build/ci/tests/conformance_tests "--source-file=*/fragments.cpp,*/rounded_products.cpp,*/matrix_units.cpp"
    '
}
timed "matrix units, by Mesa of trixie-backports" newest_mesa

# in_time SECONDS WHAT COMMAND...: timed, or left out where these would not suffice
in_time() {
    if [ $((SECONDS + $1)) -le $end ]; then timed "${@:2}"; else echo "left out, for it takes too long: $2"; fi
}
other_chips() {
    in_root '
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -t trixie-backports \
            mesa-drm-shim dpkg-dev libdrm-dev python3-mako >/dev/null
        tests/tools/intel_shim.sh
        ctest --test-dir build/ci --parallel 2 --no-tests=error --output-on-failure -R "^(conformance(_convolutions)?|backends|engine_(layers|optimizers|step|execution|reduce|replica|train|inference)|compile_everywhere_test)$"
        tests/tools/compile_everywhere --need-all build/ci/tests/compile_pipelines
    '
}
parts=(clang arm64 mesa)
clang() { in_time 700 "clang, and the same bits as GCC's" in_root "sh tests/os/compilers.sh"; }
arm64() { in_time 1600 "arm64 under qemu" in_root "sh tests/os/arm64.sh build/ci/towers"; }
mesa() { in_time 450 "device tests with Mesa of trixie-backports" other_chips; }
turn=$(git -C "$repository" rev-list --count HEAD)
for i in 0 1 2; do ${parts[(turn + i) % 3]}; done
