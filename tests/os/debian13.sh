#!/usr/bin/env bash
# The README's two commands in a clean Debian 13, warnings being errors. Then the builds with clang and for arm64.
# Finally the device tests with the newer Mesa of Debian's backports, whose compilers also compile the kernels for chips
# that are not there.
# Usage: debian13.sh [--within S]: begins nothing later than S seconds from now, except the two commands
set -euo pipefail
latest=$((SECONDS + 86400))
if [ "${1-}" = --within ]; then latest=$((SECONDS + $2)); fi
. "$(dirname "$0")/clean_debian.bash"
export PRESET=ci
make_root trixie
both_commands

# in_time WHAT COMMAND...: timed, or left out where it is too late
in_time() {
    if [ $SECONDS -le $latest ]; then timed "$@"; else echo "left out, for the time is up: $1"; fi
}
in_time "clang, and the same bits as GCC's" in_root "sh tests/os/compilers.sh"
in_time "arm64 under qemu" in_root "sh tests/os/arm64.sh build/ci/towers"

newest_mesa() {
    printf '%s\n' 'deb http://deb.debian.org/debian trixie-backports main' \
        'deb-src http://deb.debian.org/debian trixie main' >"$root/etc/apt/sources.list.d/backports.list"
    in_root '
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends -t trixie-backports mesa-vulkan-drivers mesa-drm-shim \
            dpkg-dev libdrm-dev python3-mako >/dev/null
        tests/tools/intel_shim.sh
        ctest --test-dir build/ci --parallel 2 --no-tests=error --output-on-failure -R "^(conformance(_convolutions)?|backends|engine_(layers|optimizers|step|towers|train)|compile_everywhere_test)$"
        tests/tools/compile_everywhere --need-all build/ci/tests/compile_pipelines
    '
}
in_time "device tests with Mesa of trixie-backports" newest_mesa
