#!/usr/bin/env bash
# Packs the built programs, all libraries that they need, Mesa's lavapipe and the validation layer into one archive.
# With it, tests/gpu/run.sh runs on a machine that has an NVIDIA driver and nothing else.
#
# Usage: tests/gpu/pack.sh FILE.tar.xz [--programs DIR] [--no-mesa]
#   --programs DIR   folder of a towers build with tests and CUDA (default: build/release); TOWERS_CUDA=ON builds CUDA
#                    for all cards
#   --no-mesa        leave out lavapipe, whose LLVM is most of the archive; then no run uses two vendors
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
file='' programs=$root/build/release mesa=1
fail() { echo "pack.sh: $2" >&2; exit "$1"; }
while (($#)); do
    case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --programs) (($# > 1)) || fail 2 "$1 needs a value"; programs=$2; shift 2 ;;
    --no-mesa) mesa=''; shift ;;
    -*) fail 2 "$1: there is no such flag; see --help" ;;
    *) [[ -z $file ]] || fail 2 "$1: give one file"; file=$1; shift ;;
    esac
done
[[ -n $file ]] || fail 2 "give the file to write: tests/gpu/pack.sh FILE.tar.xz"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{bin,lib,layers}
for program in towers tests/conformance_tests tests/engine_tests; do
    [[ -x $programs/$program ]] || fail 1 "$programs/$program is missing; build it, or give the folder with --programs"
    cp "$programs/$program" "$work/bin/"
done
case $("$programs/towers" devices) in
*"built without CUDA"*) fail 1 "$programs was built without CUDA; build it with TOWERS_CUDA=ON" ;;
esac
cache=$programs/CMakeCache.txt
if [[ -f $cache ]] && ! grep -q '^TOWERS_CUDA:[A-Z]*=ON$' "$cache"; then
    built_for=$(sed -n 's/^TOWERS_CUDA_ARCHITECTURES:INTERNAL=//p' "$cache")
    echo "pack.sh: warning: the CUDA backend in $programs is for the architectures ${built_for:-of its machine} alone;" \
        "build it with TOWERS_CUDA=ON for all cards" >&2
fi
strip "$work"/bin/*

# Libraries that are loaded at run time, from the folders of the tests' packages
loader=$(ldconfig -p | sed -nE 's/.*libvulkan\.so\.1 \(.*(x86-64|AArch64).*=> //p' | head -n 1)
lavapipe=$(find /usr/lib -name libvulkan_lvp.so | head -n 1)
layer=$(find /usr/lib -name libVkLayer_khronos_validation.so | head -n 1)
for found in "$loader" "$layer" ${mesa:+"$lavapipe"}; do
    [[ -n $found ]] || fail 1 "libvulkan1, mesa-vulkan-drivers or vulkan-validationlayers is missing"
    cp -L "$found" "$work/lib/"
done
mv "$work/lib/libVkLayer_khronos_validation.so" "$work/layers/"
manifest=$(find /usr/share/vulkan/explicit_layer.d -name '*khronos_validation.json' | head -n 1)
sed -E 's|("library_path": *")[^"]*|\1./libVkLayer_khronos_validation.so|' "$manifest" >"$work/layers/khronos_validation.json"
[[ -z $mesa ]] ||
    echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "./lib/libvulkan_lvp.so", "api_version": "1.3.230"}}' \
        >"$work/lavapipe.json"
# Every system has its own C and C++ libraries, which the programs must use.
ldd "$work"/bin/* "$work"/lib/* "$work"/layers/*.so | sed -nE 's|.* => (/[^ ]+) .*|\1|p' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
    while read -r library; do cp -nL "$library" "$work/lib/"; done
strip --strip-unneeded "$work"/lib/*

mkdir -p "$(dirname "$file")"
tar -C "$work" -c . | xz -T0 -6 >"$file"
du -h "$file"
