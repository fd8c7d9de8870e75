#!/bin/sh
# Trains and evaluates with two builds of the program on this machine and compares all that they write, bit for bit:
# every checkpoint, every metrics.jsonl, and what `eval` prints.
#   same_runs.sh PROGRAM OTHER [quick | CASE...]    CASE: part of a case's name, as the lines show them
# Cases are recipe, optimizer and towers. Prints a line a case and fails if any differs.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
one=$(realpath "$1") other=$(realpath "$2")
shift 2
wanted=${*:-}
case $wanted in quick) wanted="tutorial, lenet-dropout,adamw resnet20-groups" few=yes ;; *) few= ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" # so that messages and metadata of both name the same folders
ran=0 differing=0

is_wanted() {
    [ -n "$wanted" ] || return 0
    for part in $wanted; do case $1 in *"$part"*) return 0 ;; esac; done
    return 1
}

# Both programs run in a folder called `run`, since messages and metadata may name it.
each() { # COMMAND FLAGS...
    for side in a b; do
        if [ $side = a ]; then program=$one; else program=$other; fi
        if [ -d $side ]; then mv $side run; fi
        "$program" "$@" >output 2>log || { echo "$side: $program $*"; cat output log; exit 1; }
        if [ -d run ]; then mv run $side; fi
        sed 's/^.*: precision/precision/' output >"$side.$1" # removes the time of day
    done
}

names_in() ( # FOLDER
    cd "$1"
    echo ./* | sed 's/tfevents\.[0-9]*/tfevents/' # removes the time of day
)

check() { # NAME
    ran=$((ran + 1)) found=
    for file in a/*.safetensors a/metrics.jsonl; do
        cmp -s "$file" "b/${file#a/}" || found="$found ${file#a/}"
    done
    [ "$(names_in a)" = "$(names_in b)" ] || found="$found names"
    cmp -s a.eval b.eval || found="$found eval"
    if [ -z "$found" ]; then
        echo "same   $1"
    else
        differing=$((differing + 1))
        echo "OTHER  $1:$found"
    fi
    rm -rf a b
}

# compare NAME GLOBAL_BATCH FLAGS...: on each set of towers
compare() {
    name=$1 batch=$2
    shift 2
    for towers in cpu vulkan:0 cpu,vulkan:0=3:1 cpu,cpu=3:1 vulkan:0,cpu,vulkan:0=3:2:1; do
        if [ -n "$few" ]; then case $towers in cpu | cpu,vulkan:0=*) ;; *) continue ;; esac; fi
        is_wanted "$name,$towers" || continue
        case $towers in *=*) shares="--shares ${towers#*=}" ;; *) shares= ;; esac
        # shellcheck disable=SC2086
        each train --towers "${towers%=*}" $shares --global-batch "$batch" --steps 3 --save-every 1 --log-every 1 \
            --data shapes --seed 1 --threads 2 --run run "$@"
        case $name,$towers in *,vulkan:0) on=vulkan:0 ;; *) on=cpu ;; esac
        each eval --run run --towers $on --batch 100
        check "$name,$towers"
    done
}

compare tutorial 24
for optimizer in sgd momentum rmsprop adam adamw; do
    compare "lenet-dropout,$optimizer" 24 --recipe mnist-lenet --set optimizer.kind=$optimizer
done
compare resnet20-groups 48 --recipe cifar10-resnet20 --set defaults.batch_norm.group=8
compare resnet20-batch 48 --recipe cifar10-resnet20 --set 'defaults.batch_norm.group="batch"'
compare mobilenet-v2 24 --recipe mobilenet-v2 --set 'input.shape=[32,32,3]' --set defaults.batch_norm.group=4
compare tutorial-micro-batches 24 --micro-batch 3
compare tutorial-quirks 24 --quirks last-tower-loss,unordered-average,step-schedule
compare tutorial-plain 24 --distort off --shuffle off

# A run that is resumed with other shares
for towers in cpu vulkan:0,cpu=3:1; do
    is_wanted "resumed,$towers" || continue
    case $towers in *=*) shares="--shares 1:1" ;; *) shares= ;; esac
    # shellcheck disable=SC2086
    each train --recipe cifar10-fast --towers "${towers%=*}" $shares --global-batch 64 --steps 2 --threads 2 --run run
    case $towers in *=*) shares="--shares ${towers#*=}" ;; esac
    # shellcheck disable=SC2086
    each train --resume $shares --steps 4 --run run
    each eval --run run --towers cpu
    check "resumed,$towers"
done

# One tower has all examples, then both have some, then the other has all
for towers in cpu,vulkan:0 vulkan:0,cpu; do
    is_wanted "share-of-0,$towers" || continue
    line() { echo "{\"step\":$1,\"examples\":$((24 * $1)),\"shares\":[$2],\"micro_batches\":[$3]}"; }
    { line 0 24,0 1,0; line 2 16,8 1,1; line 3 0,24 0,1; } >shares.jsonl
    each train --towers "$towers" --shares @shares.jsonl --global-batch 24 --steps 5 --threads 2 --run run
    each eval --run run --towers cpu
    check "share-of-0,$towers"
done

echo "$ran cases, $differing differ"
[ "$ran" -gt 0 ] && [ $differing = 0 ]
