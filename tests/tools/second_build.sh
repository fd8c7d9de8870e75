#!/bin/sh
# Tests that after a build of the program ninja finds nothing to do.
# Usage: second_build.sh NINJA BUILD
set -eu
cd "$2"
# ninja first checks build.ninja itself, which a dry run considers out of date. No rule makes a copy of it.
copy=$(mktemp ./second_build.XXXXXX)
trap 'rm -f "$copy"' EXIT
cp build.ninja "$copy"
found=$("$1" -f "$copy" -n towers)
case $found in
*"no work to do"*) echo "a second build does nothing" ;;
*)
    echo "a second build would do this:" >&2
    echo "$found" >&2
    exit 1
    ;;
esac
