#!/usr/bin/env bash
# Tests run.sh with stand-ins for the programs: a card that the tests skip is a failure, the known messages about a
# vendor are suppressed only on machines with its cards, and what is cut off keeps the figures that it had.
set -uo pipefail

run=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/programs"
device() { printf '{"id": "%s", "vendor": "%s", "kind": "%s", "same_card_as": "%s", "withheld": "%s"}' "$@"; }
cat >"$work/programs/towers" <<P
#!/bin/sh
case "\$*" in
"devices --json") echo '{"absent": {}, "devices": [
    $(device cuda:0 NVIDIA "discrete GPU" "" ""), $(device vulkan:0 NVIDIA "discrete GPU" "" "hidden"),
    $(device vulkan:1 NVIDIA "discrete GPU" cuda:0 ""), $(device vulkan:2 AMD "integrated GPU" "" ""),
    $(device vulkan:3 Mesa software "" "")]}' ;;
eval*) echo "precision @ 1 = \${PRECISION:-0.99}" ;;
train*) for rate in 7 300 100 200; do echo "now: step \$rate, loss = 1.0 (\$rate.0 examples/sec; 0.1 sec/batch)"; done ;;
esac
P
cat >"$work/programs/conformance_tests" <<'P'
#!/bin/sh
echo $$ >>"$(dirname "$0")/ids"
echo "left out: $VK_LAYER_MESSAGE_ID_FILTER"
for device in $TESTED; do echo "testing on $device: a card"; done
echo "SKIPPED vulkan: the validation layer is not installed"
sleep "${SECONDS_OF_TESTS:-0}"
P
cp "$work/programs/conformance_tests" "$work/programs/engine_tests"
cat >"$work/programs/compile_pipelines" <<'P'
#!/bin/sh
echo "pipelines of $1"
P
chmod +x "$work/programs"/*
cat >"$work/known" <<'P'
# a comment
NVIDIA VUID-one it is wrong
Intel  VUID-two of another machine
AMD    VUID-three so is this
P
run() { "$run" "$work/out" "$@" --programs "$work/programs" --known "$work/known"; }
# expect CODE DEVICES TEXT...: run.sh ends with CODE where the tests test these devices, and prints each TEXT
expect() {
    local code=$1 failures=0
    TESTED=$2 run quick >"$work/text" 2>&1
    local got=$?
    cat "$work"/out/{log.txt,figures.jsonl} >>"$work/text"
    shift 2
    ((got == code)) || { echo "exit code $got, expected $code"; failures=1; }
    for text; do
        grep -F -- "$text" "$work/text" >/dev/null || { echo "missing: $text"; failures=1; }
    done
    ((!failures)) || { cat "$work/text"; exit 1; }
}
expect 0 "cpu cuda:0 vulkan:1 vulkan:2" "known on NVIDIA, not counted: VUID-one: it is wrong" \
    "left out: VUID-one:VUID-three" '{"name": "precision-vulkan-1", "value": 0.99' \
    '{"name": "steps-cifar10-fast-cuda-0-tune-quick", "value": 200.0, "unit": "examples/s"}'
PRECISION=0.5 expect 1 "cpu vulkan:3" "FAILED: engine-on-vulkan-1" "FAILED: engine-on-cuda-0" \
    "FAILED: conformance-on-vulkan-1 (it skipped vulkan:1: SKIPPED vulkan: the validation layer is not installed)" \
    "FAILED: conformance-on-vulkan-2" "FAILED: precision-cuda-0-is-enough (it is 0.5"
run traces >"$work/text" 2>&1
grep -xF "pipelines of vulkan:1" "$work/out/pipelines.jsonl" >/dev/null ||
    { echo "traces: no figures of Vulkan's compiler"; cat "$work/text"; exit 1; }
for usage in "nothing" "--only x"; do
    # shellcheck disable=SC2086
    run $usage >"$work/text" 2>&1
    (($? == 2)) || { echo "run.sh $usage: not refused"; exit 1; }
done
# missing PART LINE: a part whose program is missing fails
missing() {
    run "$1" >"$work/text" 2>&1
    (($? == 1)) && grep -F -- "$2" "$work/text" >/dev/null || { echo "run.sh $1: passes without its program"; cat "$work/text"; exit 1; }
}
command -v compute-sanitizer >/dev/null || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' >/dev/null ||
    missing sanitizers "FAILED: sanitizers-have-program (compute-sanitizer is missing"
python3 -c 'import torch' 2>/dev/null || missing peers "FAILED: peers-have-pytorch (PyTorch is missing"

# Ended while the tests still run: it ends them too
: >"$work/programs/ids"
SECONDS_OF_TESTS=60 "$run" "$work/ended" --programs "$work/programs" >"$work/text" 2>&1 &
tests() { # whether one runs
    local id
    while read -r id; do
        ! kill -0 "$id" 2>/dev/null || return 0
    done <"$work/programs/ids"
    return 1
}
for ((i = 0; i < 600; i++)); do
    ! tests || break
    sleep 0.1
done
kill $!
begin=$SECONDS
wait $!
(($? == 1 && SECONDS - begin < 10)) && ! tests || { echo "ended, it leaves its tests"; cat "$work/text"; exit 1; }

# Cut off while the tests still run
SECONDS_OF_TESTS=60 setsid "$run" "$work/cut" --programs "$work/programs" >"$work/text" 2>&1 &
for ((i = 0; i < 600; i++)); do
    ! grep -q precision-vulkan-1 "$work/cut/figures.jsonl" 2>/dev/null || break
    sleep 0.1
done
{ kill -KILL -- -$!; wait; } 2>/dev/null
grep -q '"name": "precision-vulkan-1", "value": 0.99' "$work/cut/figures.jsonl" ||
    { echo "cut off, it lost its figures"; cat "$work/text" "$work/cut/figures.jsonl"; exit 1; }
