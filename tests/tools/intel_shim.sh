#!/bin/sh
# Builds the shim that makes Mesa's driver for Intel's chips believe that one is there, which Debian's package
# mesa-drm-shim leaves out, from Debian's source package of Mesa. compile_everywhere finds it in /usr/local/lib. Takes
# seconds, for it compiles the few files that the shim needs, and does not build Mesa.
#   intel_shim.sh [FOLDER]    instead of /usr/local/lib
# Needs on Debian 13, beside a compiler: dpkg-dev, libdrm-dev, python3-mako and a line `deb-src` for apt. Another version
# of the driver than the sources' will do: both follow the kernel's interface.
set -eu
to=${1:-/usr/local/lib}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get source --download-only -q mesa/stable >apt.log 2>&1 || { cat apt.log; exit 1; }
tar -xf mesa_*.orig.tar.xz --strip-components=1 --wildcards '*/include' '*/src/c11' '*/src/compiler' '*/src/drm-shim' \
    '*/src/util' '*/src/intel/common' '*/src/intel/dev' '*/src/intel/tools'

dev=src/intel/dev
python3 $dev/intel_device_info_gen_h.py $dev/intel_device_info_gen.h
python3 $dev/intel_device_info_serialize_gen_c.py $dev/serialize.c
python3 $dev/gen_wa_helpers.py $dev/mesa_defs.json $dev/intel_wa.h $dev/intel_wa.c
util=
for file in anon_file hash_table log os_misc parson ralloc set simple_mtx u_call_once u_debug u_process vma; do
    util="$util src/util/$file.c"
done
${CC:-cc} -shared -fPIC -O1 -w -fvisibility=hidden -ffunction-sections -Wl,--gc-sections -Wl,-z,defs \
    -DNDEBUG -D_GNU_SOURCE -DHAVE_PTHREAD -DHAVE_STRUCT_TIMESPEC -DHAVE_SECURE_GETENV -DHAVE_MEMFD_CREATE -DHAVE_PROGRAM_INVOCATION_NAME \
    -DHAVE_ENDIAN_H -DHAVE_FUNC_ATTRIBUTE_PACKED -DHAVE___BUILTIN_FFS -DUTIL_ARCH_LITTLE_ENDIAN=1 -DUTIL_ARCH_BIG_ENDIAN=0 \
    -Iinclude -Isrc -Isrc/util -Isrc/intel -I/usr/include/libdrm \
    src/drm-shim/device.c src/drm-shim/drm_shim.c src/intel/tools/intel_noop_drm_shim.c \
    $dev/i915/intel_device_info.c $dev/intel_device_info.c $dev/intel_wa.c $dev/serialize.c $util \
    -ldrm -lm -o libintel_noop_drm_shim.so
mkdir -p "$to"
cp libintel_noop_drm_shim.so "$to"
