#!/bin/sh
# Trains five steps with each of two builds of the program, on one CPU tower and on two, and compares the
# checkpoints bit for bit: initial values, after one step, after five.
#   same_bits.sh [--start] PROGRAM OTHER    each may be several words, such as "qemu-aarch64 build/arm64/towers"
# Prints a line a comparison and fails if any differs; with --start, only if initial values or drawn images do.
set -eu
last=5
if [ "${1-}" = --start ]; then
    last=0
    shift
fi
[ $# -eq 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

train() { # NAME PROGRAM FLAGS...
    run=$work/$1 program=$2
    shift 2
    # shellcheck disable=SC2086 # a program may be several words
    $program train --batch 8 --steps 5 --save-every 1 --keep 9 --seed 1 --run "$run" "$@" >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
}

differing=
compare() { # WHAT: of the runs a and b
    for step in 0 1 5; do
        case $step in 0) what="initial values" ;; *) what="after step $step" ;; esac
        code=0
        "$here/compare_checkpoints.py" "$work/a/model.ckpt-$step.safetensors" \
            "$work/b/model.ckpt-$step.safetensors" >"$work/differences" || code=$?
        case $code in
        0) echo "$1, $what: the same bits" ;;
        3)
            echo "$1, $what: other bits, such as $(head -n 1 "$work/differences")"
            [ $step -gt $last ] || { cat "$work/differences"; differing=yes; }
            ;;
        *) exit 1 ;;
        esac
    done
    rm -r "$work/a" "$work/b"
}

train a "$1" --towers cpu --threads 1 --data shapes
train b "$2" --towers cpu --threads 1 --data shapes
compare "one tower"

# CIFAR-10's files, each program's own
# shellcheck disable=SC2086
for side in a b; do
    if [ $side = a ]; then program=$1; else program=$2; fi
    $program data shapes "$work/data_$side" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    train $side "$program" --towers cpu,cpu --shares 1:1 --threads 2 --data "$work/data_$side"
done
if diff -r "$work/data_a" "$work/data_b"; then
    echo "drawn images: the same bytes"
else
    differing=yes
fi
compare "two towers"
[ -z "$differing" ]
