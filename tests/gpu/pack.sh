#!/usr/bin/env bash
# Packs the built programs, all libraries that they and NVIDIA's drivers need, SwiftShader as a second vendor's driver
# and the validation layer into one archive. With it, tests/gpu/run.sh runs on a machine that has an NVIDIA driver and
# nothing else.
#
# Usage: tests/gpu/pack.sh FILE.tar.xz [--programs DIR]
#   --programs DIR   folder of a towers build with tests and CUDA (default: build/release). The archive is small if CUDA
#                    is built for that machine's card alone: TOWERS_CUDA=ON CUDAARCHS=90-real for an H100 or H200
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
file='' programs=$root/build/release
fail() { echo "pack.sh: $2" >&2; exit "$1"; }
while (($#)); do
    case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --programs) (($# > 1)) || fail 2 "$1 needs a value"; programs=$2; shift 2 ;;
    -*) fail 2 "$1: there is no such flag; see --help" ;;
    *) [[ -z $file ]] || fail 2 "$1: give one file"; file=$1; shift ;;
    esac
done
[[ -n $file ]] || fail 2 "give the file to write: tests/gpu/pack.sh FILE.tar.xz"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work"/{bin,lib,layers,swiftshader}
for program in towers tests/conformance_tests tests/engine_tests tests/compile_pipelines; do
    [[ -x $programs/$program ]] || fail 1 "$programs/$program is missing; build it, or give the folder with --programs"
    cp "$programs/$program" "$work/bin/"
done
case $("$programs/towers" devices) in
*"built without CUDA"*) fail 1 "$programs was built without CUDA; build it with TOWERS_CUDA=ON" ;;
esac
echo "CUDA for the architectures $(sed -n 's/^TOWERS_CUDA_ARCHITECTURES:INTERNAL=//p' "$programs/CMakeCache.txt")"
strip "$work"/bin/*

# Libraries that are loaded at run time: the tests' packages have the first two, NVIDIA's Vulkan driver needs the others.
library() { ldconfig -p | sed -nE "s/.*$1 \(.*(x86-64|AArch64).*=> //p" | head -n 1; }
layer=$(find /usr/lib -name libVkLayer_khronos_validation.so | head -n 1)
[[ -n $layer && -n $(library libvulkan.so.1) ]] || fail 1 "libvulkan1 or vulkan-validationlayers is missing"
cp -L "$layer" "$work/layers/"
for name in libvulkan.so.1 libX11.so.6 libXext.so.6 libGLdispatch.so.0 libGLX.so.0 libEGL.so.1; do
    found=$(library $name)
    if [[ -n $found ]]; then cp -L "$found" "$work/lib/"; else echo "pack.sh: warning: no $name here to pack" >&2; fi
done
manifest=$(find /usr/share/vulkan/explicit_layer.d -name '*khronos_validation.json' | head -n 1)
sed -E 's|("library_path": *")[^"]*|\1./libVkLayer_khronos_validation.so|' "$manifest" >"$work/layers/khronos_validation.json"
sh "$root/cmake/swiftshader.sh" "$root/.cache/swiftshader"
cp "$root"/.cache/swiftshader/usr/lib/chromium/*swiftshader* "$work/swiftshader/" || fail 1 "there is no SwiftShader to pack"
# Every system has its own C and C++ libraries, which the programs must use.
ldd "$work"/bin/* "$work"/lib/* "$work"/layers/*.so | sed -nE 's|.* => (/[^ ]+) .*|\1|p' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
    while read -r library; do cp -nL "$library" "$work/lib/"; done
strip --strip-unneeded "$work"/lib/* "$work"/layers/*.so "$work"/swiftshader/*.so

mkdir -p "$(dirname "$file")"
tar -C "$work" -c . | xz -T0 -6 >"$file"
du -h "$file"
