#!/bin/sh
# Tests that a parameter block whose pointers cannot be found does not compile, and that the compiler says why: a plan
# could not know what such a kernel reads and writes. Usage: parameter_blocks.sh COMPILER FOLDER_OF_SOURCES [FLAGS]
set -eu
compiler=$1 sources=$2
shift 2
text=$sources/tests/tools/parameter_blocks.cpp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { "$compiler" -std=c++20 -fsyntax-only -I"$sources" "$@" "$text" >"$work/messages" 2>&1; }

if ! compile -DCASE=0 "$@"; then
    cat "$work/messages"
    echo "good parameter blocks do not compile"
    exit 1
fi
failed=0
cases=$(sed -n 's/^#\(el\)\{0,1\}if CASE == \([0-9]*\) .*/\2/p' "$text")
for case in $cases; do
    reason=$(sed -n "s,^#\(el\)\{0\,1\}if CASE == $case // ,,p" "$text")
    if compile "-DCASE=$case" "$@"; then
        echo "case $case compiles"
        failed=1
    elif ! grep -q "$reason" "$work/messages"; then
        cat "$work/messages"
        echo "case $case: the message does not say '$reason'"
        failed=1
    fi
done
[ -n "$cases" ] && exit $failed
