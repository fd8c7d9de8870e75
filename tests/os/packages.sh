#!/usr/bin/env bash
# Makes the packages in clean Debians and tries each in another clean one, which has no compiler: installs it, lists
# devices, trains, evaluates, removes it. The packages remain in .cache/packages/.
#   tests/os/packages.sh [WHAT...]
# WHAT is some of deb, wheel, arm64 (default: all), and of bookworm and trixie (default: both). The wheel is made on
# bookworm. arm64's .deb runs in an arm64 Debian under qemu-user, which needs Linux 6.7 or later. The word again tries
# packages that are in .cache/packages/ already.
set -euo pipefail
. "$(dirname "$0")/clean_debian.bash"
for word in "$@"; do
    case $word in deb | wheel | arm64 | bookworm | trixie | again) ;; *) sed -n '4,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
done
wanted=" $* "
named() { [[ $wanted == *" $1 "* ]]; }
made_wanted() { named "$1" || ! { named deb || named wheel || named arm64; }; }
suite_wanted() { named "$1" || ! { named bookworm || named trixie; }; }

# in_emulation COMMAND...: as root of a user namespace where Linux runs arm64's programs with qemu-user. Linux's table
# of such programs is the namespace's own.
in_emulation() {
    local gate process
    gate=$(mktemp -d)
    mkfifo "$gate/ready" "$gate/go"
    unshare --user --mount --pid --fork --kill-child bash -euc '
        echo >"$0/ready"
        read -r <"$0/go"
        mount -t proc proc /proc
        mount -t binfmt_misc binfmt /proc/sys/fs/binfmt_misc
        magic='"'"'\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'"'"'
        mask='"'"'\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'"'"'
        echo ":arm64:M::$magic:$mask:/usr/bin/qemu-aarch64-static:F" >/proc/sys/fs/binfmt_misc/register
        exec "$@"' "$gate" "$@" 9>&- &
    process=$!
    read -r <"$gate/ready"
    echo "0 0 65536" >"/proc/$process/uid_map"
    echo "0 0 65536" >"/proc/$process/gid_map"
    echo >"$gate/go"
    rm -r "$gate"
    wait $process
}

make_arm64_root() {
    local suite=$1 archive=$cache/$1-arm64.tar
    packages=$cache/packages-$suite-arm64
    mkdir -p "$packages"
    for tool in qemu-aarch64-static arch-test mmdebstrap; do
        command -v $tool >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
            qemu-user-static arch-test mmdebstrap >/dev/null
    done
    if [ ! -f "$archive" ]; then
        # A user namespace without a network of its own may not mount /sys.
        in_emulation mmdebstrap --quiet --variant=apt --skip=chroot/mount/sys --arch=arm64 "$suite" \
            "$archive.part.tar" "deb http://deb.debian.org/debian $suite main"
        mv "$archive.part.tar" "$archive"
    fi
    rm -rf "$root"
    root=$(mktemp -d "$cache/root-$suite.XXXXXX")
    tar -xf "$archive" -C "$root"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mkdir "$root/root/towers" # where in_root begins
    echo "a clean Debian $(cat "$root/etc/debian_version") for arm64"
}

in_arm64_root() {
    in_emulation bash -euc "$(declare -f in_root)"'
        root=$1 packages=$2
        in_root "$3"' bash "$root" "$packages" "$1"
}

# give FILES...: copies packages into the root, and this machine's way to Python's packages
give() {
    mkdir -p "$root/root/packages"
    for file in "$@"; do cp "$file" "$root/root/packages/"; done
    if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/pip.conf"; fi
    if [ -n "${PIP_CERT-}" ]; then
        mkdir -p "$root/etc/ssl/certs"
        cp "$PIP_CERT" "$root/etc/ssl/certs/ca-certificates.crt"
    fi
}

# Of the installed program; $towers is its command
use='
    cd /tmp
    $towers --version
    $towers devices
    $towers train --towers cpu --batch 8 --steps 5 --log-every 1 --run run
    $towers eval --towers cpu --run run
'

try_deb() { # RUN-IN-ROOT
    "$1" "
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends /root/packages/towers_*.deb >/dev/null
        dpkg-query -W towers
        towers=towers
        $use
        bash -euc '. /usr/share/bash-completion/completions/towers; complete -p towers'
        gzip -dc /usr/share/man/man1/towers-train.1.gz | sed -n 4p
        ls /usr/share/doc/towers
    "
}

try_vulkan='
    export DEBIAN_FRONTEND=noninteractive
    cd /tmp
    apt-get install -y -q --no-install-recommends libvulkan1 mesa-vulkan-drivers >/dev/null
    $towers devices
    $towers train --towers vulkan:0 --batch 8 --steps 2 --run on_vulkan
'

remove_deb='
    apt-get remove -y -q towers >/dev/null
    left=$(find /usr -name "*towers*")
    [ -z "$left" ] || { echo "left over: $left" >&2; exit 1; }
'

try_wheel() {
    in_root '
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q >/dev/null
        apt-get install -y -q --no-install-recommends python3-venv pipx >/dev/null
        if command -v cc g++; then echo "there is a compiler"; exit 1; fi
        python3 -m venv /root/venv
        /root/venv/bin/pip install -q /root/packages/towers-*.whl
        towers=/root/venv/bin/towers
        '"$use"'
        /root/venv/bin/python -c "
import towers
run = towers.run(steps=4, batch=8, towers=\"cpu\", log=False, log_every=1)
print(towers.__version__, run.metric(\"loss\"), run.eval(towers=\"cpu\"))
print(run.checkpoint()[\"conv1/weights\"].shape, [each[\"id\"] for each in towers.devices()])"
        pipx run --spec /root/packages/towers-*.whl towers --version
    '
    in_root "towers=/root/venv/bin/towers; $try_vulkan"
}

# fragment_shaders: to $shaders, in the Debian whose glslang can compile them
fragment_shaders() {
    make_root trixie
    timed "trixie: compile the kernels for matrix units" in_root "sh cmake/quickstart.sh packages shaders"
    rm -rf "$shaders"
    cp -r "$root/root/towers/build/packages/fragments" "$shaders"
}

# make_packages SUITE: in a clean system, to the folder $made
make_packages() {
    [ "$1" != bookworm ] || ! made_wanted wheel || fragment_shaders
    make_root "$1"
    give
    if made_wanted deb; then
        timed "$1: make the .deb" in_root "sh cmake/quickstart.sh packages deb /root/packages"
        rm -f "$made"/*_"$(dpkg --print-architecture)".deb
    fi
    if [ "$1" = bookworm ] && made_wanted wheel; then
        cp -r "$shaders" "$root/root/fragments"
        timed "$1: make the wheel" in_root "
            TOWERS_FRAGMENT_SHADERS=/root/fragments sh cmake/quickstart.sh packages wheel /root/packages"
        rm -f "$made"/*.whl
    fi
    if made_wanted arm64; then
        timed "$1: make the .deb for arm64" in_root "
            sh tests/os/arm64_libraries.sh
            PRESET=arm64 sh cmake/packages.sh deb /root/packages"
        rm -f "$made"/*_arm64.deb
    fi
    cp "$root"/root/packages/* "$made/"
}

shaders=$cache/../packages/fragments
for suite in bookworm trixie; do
    suite_wanted $suite || continue
    made=$cache/../packages/$suite
    mkdir -p "$made"
    named again || make_packages $suite
    ls -l "$made"

    if made_wanted deb; then
        make_root $suite
        give "$made"/towers_*_"$(dpkg --print-architecture)".deb
        timed "$suite: try the .deb" try_deb in_root
        timed "$suite: try it with Vulkan" in_root "towers=towers; $try_vulkan"
        timed "$suite: remove it" in_root "$remove_deb"
    fi
    if made_wanted wheel; then
        make_root $suite
        give "$cache"/../packages/bookworm/towers-*.whl
        timed "$suite: try the wheel" try_wheel
    fi
    if made_wanted arm64; then
        make_arm64_root $suite
        give "$made"/towers_*_arm64.deb
        timed "$suite: try the .deb for arm64 under qemu" try_deb in_arm64_root
    fi
done
