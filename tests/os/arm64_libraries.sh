#!/bin/sh
# Installs what building for arm64 needs on Debian of another architecture, and qemu-user. Needs root. Changes the
# system: libdnnl-dev:arm64 takes the place of libdnnl-dev.
set -eu
dpkg --add-architecture arm64
apt-get update -q >/dev/null
echo "installing the cross compiler, the libraries for arm64 and qemu-user"
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends cmake ninja-build g++-aarch64-linux-gnu \
    qemu-user python3 glslang-tools spirv-tools libglm-dev libcli11-dev nlohmann-json3-dev doctest-dev dpkg-dev file \
    help2man libvulkan-dev:arm64 libdnnl-dev:arm64 ocl-icd-opencl-dev:arm64 libfmt-dev:arm64 libspdlog-dev:arm64 \
    libtomlplusplus-dev:arm64 zlib1g-dev:arm64 libturbojpeg0-dev:arm64 libspng-dev:arm64 libwebp-dev:arm64 \
    libprotozero-dev libstb-dev >/dev/null
# Debian installs ISA-L for one architecture only, but the other's files lie apart.
packages=$(mktemp -d)
(cd "$packages" && apt-get download -q libisal2:arm64 libisal-dev:arm64 >/dev/null 2>&1 &&
    for each in *.deb; do dpkg -x "$each" /; done)
rm -r "$packages"
# dpkg-shlibdeps finds no package for those files.
grep -qs '^libisal 2 ' /etc/dpkg/shlibs.override || echo 'libisal 2 libisal2' >>/etc/dpkg/shlibs.override
