#!/bin/sh
# Fetches SwiftShader, a software Vulkan driver and the tests' second vendor, out of Debian's chromium-common package
# without installing it:  swiftshader.sh DEST  ->  DEST/usr/lib/chromium/vk_swiftshader_icd.json
# Without such a package it only prints so, and the tests run on the installed drivers.
set -eu
dest=${1:?usage: swiftshader.sh DEST}
[ -f "$dest/usr/lib/chromium/vk_swiftshader_icd.json" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if (cd "$work" && apt-get -q download chromium-common >download.log 2>&1); then
    mkdir -p "$dest/usr/lib/chromium"
    dpkg -x "$work"/chromium-common_*.deb "$work/unpacked"
    cp "$work/unpacked/usr/lib/chromium/libvk_swiftshader.so" "$work/unpacked/usr/lib/chromium/vk_swiftshader_icd.json" \
        "$dest/usr/lib/chromium/"
else
    echo "SwiftShader is not available here (no chromium-common package): testing without it" >&2
fi
