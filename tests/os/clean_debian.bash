# Functions for the scripts beside this file: a clean Debian in a folder, and commands in it. They need root.
#   make_root SUITE     unpacks a new, minimal Debian into $root, which is removed when the script ends
#   in_root COMMAND     runs a shell command in $root, in a clean clone of this repository
#   both_commands       the two commands of the README, with their times and last lines
# The unpacked system is made once and kept in .cache/debian/, as are the packages that are installed in it.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=$repository/.cache/debian
root=''

skip() { echo "SKIPPED ${0##*/}: $1"; exit 77; }

make_root() {
    local suite=$1 archive=$cache/$1.tar
    packages=$cache/packages-$1
    [ "$(id -u)" -eq 0 ] || skip "it needs root, to unpack a system and to enter it"
    unshare --mount --pid --fork true 2>/dev/null || skip "this system gives root no new namespaces"
    mkdir -p "$packages"
    exec 9>"$cache/lock"
    flock 9 # one script at a time, so any other root here is left over
    rm -rf "$cache/root-$suite".*
    if [ ! -f "$archive" ]; then
        if ! command -v mmdebstrap >/dev/null; then
            command -v apt-get >/dev/null || skip "it needs mmdebstrap"
            apt-get update -q >/dev/null
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends mmdebstrap \
                debian-archive-keyring >/dev/null
        fi
        mmdebstrap --quiet --variant=apt --include=ca-certificates "$suite" "$cache/$suite.part.tar" \
            "deb http://deb.debian.org/debian $suite main" "deb http://deb.debian.org/debian $suite-updates main" \
            "deb http://deb.debian.org/debian-security $suite-security main"
        mv "$cache/$suite.part.tar" "$archive"
    fi
    root=$(mktemp -d "$cache/root-$suite.XXXXXX")
    trap 'rm -rf "$root"' EXIT
    tar -xf "$archive" -C "$root"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    echo 'APT::Keep-Downloaded-Packages "true";' >"$root/etc/apt/apt.conf.d/keep-packages"
    git clone -q "$repository" "$root/root/towers"
    echo "a clean Debian $(cat "$root/etc/debian_version") and a clean clone of" \
        "$(git -C "$repository" rev-parse --short HEAD)"
}

in_root() {
    # The mounts are in a namespace of their own and end with the command. /dev has none of this machine's devices.
    unshare --mount --pid --fork --kill-child bash -euc '
        root=$1
        mount -t proc proc "$root/proc"
        mount -t tmpfs dev "$root/dev"
        for node in null zero full random urandom tty; do
            [ -e "/dev/$node" ] || continue
            touch "$root/dev/$node"
            mount --bind "/dev/$node" "$root/dev/$node"
        done
        mkdir "$root/dev/shm" "$root/dev/pts"
        mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
        ln -s pts/ptmx "$root/dev/ptmx"
        ln -s /proc/self/fd "$root/dev/fd"
        ln -s /proc/self/fd/0 "$root/dev/stdin"
        ln -s /proc/self/fd/1 "$root/dev/stdout"
        ln -s /proc/self/fd/2 "$root/dev/stderr"
        mount --rbind /sys "$root/sys" # MPIs look there for processors and networks, and warn
        mount --bind "$2" "$root/var/cache/apt/archives"
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root ${PRESET:+PRESET="$PRESET"} \
            sh -euc "cd /root/towers; $3"
    ' bash "$root" "$packages" "$1" </dev/null 9>&-
}

# timed WHAT COMMAND...
timed() {
    local what=$1 begin=$SECONDS
    shift
    echo "== $what"
    "$@"
    echo "== $what: $((SECONDS - begin)) s"
}

both_commands() {
    timed "sh cmake/quickstart.sh train" in_root "sh cmake/quickstart.sh train"
    timed "sh cmake/quickstart.sh test" in_root "sh cmake/quickstart.sh test"
}
