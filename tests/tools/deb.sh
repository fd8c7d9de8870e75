#!/bin/sh
# Makes the .deb of a build and tests its files, its dependencies and the program in it.
# Usage: deb.sh CPACK BUILD VERSION
set -eu
build=$2 version=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1" >&2; exit 1; }
for tool in dpkg-deb dpkg-shlibdeps objdump; do
    command -v $tool >/dev/null || { echo "SKIPPED: there is no $tool"; exit 77; }
done

(cd "$build" && "$1" -G DEB -B "$work/out") >"$work/log" 2>&1 || { cat "$work/log"; fail "cpack"; }
package=$(echo "$work"/out/*.deb)
[ -f "$package" ] || fail "cpack made $package"
dpkg-deb -f "$package"
field() { dpkg-deb -f "$package" "$1"; }
. /etc/os-release
release=
[ "$ID" != debian ] || release=${VERSION_ID:+-1~deb$VERSION_ID}
architecture=$(dpkg --print-architecture)
[ "${package##*/}" = "towers_$version${release}_$architecture.deb" ] || fail "its name is ${package##*/}"
[ "$(field Version)" = "$version$release" ] || fail "its version"

# Its files
dpkg-deb -x "$package" "$work/root"
dpkg-deb -c "$package" | awk '$2 != "root/root"' >"$work/others"
[ ! -s "$work/others" ] || { cat "$work/others"; fail "files that are not root's"; }
share=$work/root/usr/share
for file in doc/towers/copyright doc/towers/changelog.Debian.gz doc/towers/README.md doc/towers/docs/commands.md; do
    [ -s "$share/$file" ] || fail "there is no usr/share/$file"
done
if grep -q CUDA-EULA.txt "$build/cmake_install.cmake"; then
    [ -s "$share/doc/towers/CUDA-EULA.txt" ] || fail "there is no CUDA-EULA.txt"
    grep -q CUDA-EULA.txt "$share/doc/towers/copyright" || fail "copyright does not tell of CUDA's licence"
fi
if [ -d "$build/apps/completion/bash" ]; then
    for file in bash-completion/completions/towers zsh/vendor-completions/_towers fish/vendor_completions.d/towers.fish; do
        [ -s "$share/$file" ] || fail "there is no usr/share/$file"
    done
    bash -n "$share/bash-completion/completions/towers"
fi
if [ -d "$build/apps/man" ]; then
    for page in "$build"/apps/man/*.1; do
        gzip -t "$share/man/man1/${page##*/}.gz" || fail "the man page ${page##*/}"
    done
fi
for plugin in "$build"/lib/towers/*.so; do
    [ -e "$plugin" ] || continue
    file=$work/root/usr/lib/towers/${plugin##*/}
    [ -f "$file" ] || fail "there is no usr/lib/towers/${plugin##*/}"
    objdump -p "$file" | grep -q 'NEEDED *libmpi' || fail "${plugin##*/} is no plugin for an MPI"
done
unexpected=$(cd "$work/root" && find . -type f ! -path './usr/share/*' ! -path ./usr/bin/towers \
    ! -path './usr/lib/towers/towers-*.so')
[ -z "$unexpected" ] || fail "it has $unexpected"

# Its dependencies are the packages of the libraries that the program names. Vulkan's is opened if it is there.
program=$work/root/usr/bin/towers
field Depends | tr , '\n' | sed 's/^ *\([^ ]*\).*/\1/' >"$work/depends"
LC_ALL=C ldd "$program" >"$work/ldd" || fail "ldd"
for library in $(objdump -p "$program" | sed -n 's/^ *NEEDED *//p'); do
    case $library in libvulkan* | libcuda* | libOpenCL*) fail "the program needs $library to start" ;; esac
    path=$(sed -n "s/^\t$library => \([^ ]*\) .*/\1/p; s/^\t\(\/.*\/$library\) .*/\1/p" "$work/ldd" | head -n 1)
    path=$(readlink -f "$path")
    # dpkg may know the file in /lib or in /usr/lib.
    owner=$(dpkg -S "$path" "/usr$path" "${path#/usr}" 2>/dev/null | sed -n '1s/:.*//p')
    [ -n "$owner" ] || { echo "no package has $path"; continue; } # such as a sanitizer's own
    dpkg-query -W -f '${Package} ${Provides}' "$owner" | sed 's/([^)]*)//g' | tr -s ', ' '\n' >"$work/names"
    grep -qxFf "$work/names" "$work/depends" || fail "it does not depend on $owner, which has $library"
done
grep -q '^libdnnl' "$work/depends" || fail "it does not depend on oneDNN"
field Recommends | grep -q libvulkan1 || fail "it does not recommend libvulkan1"
! grep -E '^lib(open)?mpi' "$work/depends" || fail "it depends on an MPI"
field Suggests | grep -q 'openmpi-bin | mpich' || fail "it does not suggest an MPI"

[ "$("$program" --version)" = "towers $version" ] || fail "the program says $("$program" --version)"
! objdump -t "$program" | grep -q ' main$' || fail "the program has its symbols"

if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error,warning "$package" || fail "lintian"
else
    echo "SKIPPED lintian: it is not installed"
fi
