#!/bin/sh
# Runs mpi_ring under the launcher of an MPI, under that of the other, and without what it needs.
# Usage: mpi.sh openmpi|mpich RING LIBRARY    RING is the program; LIBRARY is a shared library that is no plugin
set -eu
mpi=$1 ring=$2 library=$3
plugin=$(dirname "$ring")/../lib/towers/towers-$mpi.so
[ -f "$plugin" ] || { echo "SKIPPED: this build has no plugin for $mpi"; exit 77; }
case $mpi in
openmpi) other=mpich name="Open MPI" soname=libmpi.so.40 package=openmpi-bin headers=libopenmpi-dev ;;
mpich) other=openmpi name=MPICH soname=libmpich.so.12 package=mpich headers=libmpich-dev ;;
esac
command -v "mpirun.$mpi" >/dev/null || { echo "SKIPPED: there is no mpirun.$mpi"; exit 77; }
# With the address sanitizer: whose leaks lsan.supp lists is seen only by walking through the libraries' frames.
export ASAN_OPTIONS="${ASAN_OPTIONS-}:fast_unwind_on_malloc=0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/log"; echo "FAILED: $1" >&2; exit 1; }
# with MPI RANKS PROGRAM...: runs the program under the launcher of this MPI; its words are in $work/log
with() {
    launcher=mpirun.$1 ranks=$2
    [ "$1" = mpich ] || launcher="$launcher --oversubscribe"
    shift 2
    # shellcheck disable=SC2086 # launcher is a command with a flag
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        timeout -k 5 60 $launcher -n "$ranks" "$@" >"$work/log" 2>&1
}
# refused TEXT PROGRAM...: the program, as Open MPI or MPICH would start it as one of three, says one line with the text
refused() {
    text=$1
    shift
    ! OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=1 timeout -k 5 60 "$@" "$mpi" >"$work/log" 2>&1 ||
        fail "it has not failed"
    [ "$(wc -l <"$work/log")" -eq 1 ] || fail "it says more than one line"
    grep -qF "$text" "$work/log" || fail "it does not say '$text'"
}

with "$mpi" 3 "$ring" || fail "three ranks"
cat "$work/log"
[ "$(grep -c "^rank [0-2] of 3 started by .* of $name with $name [0-9.]*: all has arrived" "$work/log")" -eq 3 ] ||
    fail "not all of three ranks"
with "$mpi" 1 "$ring" || fail "one rank"
code=0
with "$mpi" 3 "$ring" misuse || code=$?
[ "$code" -ne 124 ] || fail "after a rank has failed, the job goes on"
# MPICH before 4.3 may end with 0: https://github.com/pmodels/mpich/issues/7057
[ "$code" -ne 0 ] || [ "$mpi" = mpich ] || fail "a job of which a rank fails has not failed"
grep -q "all is refused" "$work/log" || fail "misuse"

refused "says that this is rank 1 of 3, but $name" "$ring"
if command -v "mpirun.$other" >/dev/null; then
    ! with "$other" 3 "$ring" "$mpi" || fail "it runs under $other's launcher"
    grep -q "^mpi.*says that this is rank [0-2] of 3, but $name .* rank 0 of 1; start with" "$work/log" ||
        fail "it says something else under $other's launcher"
fi

mkdir -p "$work/bin" "$work/lib/towers"
cp "$ring" "$work/bin/ring"
copy=$work/lib/towers/towers-$mpi.so
refused "this program has no plugin for $name, towers-$mpi.so in $work/lib/towers;" "$work/bin/ring"
grep -qF "(Debian's packages pkg-config and $headers)" "$work/log" || fail "it does not name the headers"
LC_ALL=C sed "s/$soname/x${soname#l}/" "$plugin" >"$copy"
refused "(Debian's package $package)" "$work/bin/ring"
"$work/bin/ring" absent | grep -q "^absent: $name cannot be used" || fail "it says that it can use $name"
cp "$library" "$copy"
refused "$copy belongs to another version of towers" "$work/bin/ring"
"$ring" absent >"$work/log" || fail "it does not say which MPI it can use"
! grep -q "$name" "$work/log" || fail "it says that it cannot use $name"
