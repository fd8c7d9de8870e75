#!/usr/bin/env bash
# Tests run.sh with stand-ins for the programs: a card that conformance skips is a failure, and the known messages about
# a vendor are suppressed only on machines with its cards.
set -uo pipefail

run=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/programs"
device() { printf '{"id": "%s", "vendor": "%s", "kind": "%s", "same_card_as": "%s", "withheld": "%s"}' "$@"; }
cat >"$work/programs/towers" <<P
#!/bin/sh
[ "\$*" != "devices --json" ] || echo '{"absent": {}, "devices": [
    $(device cuda:0 NVIDIA "discrete GPU" "" ""), $(device vulkan:0 NVIDIA "discrete GPU" "" "hidden"),
    $(device vulkan:1 NVIDIA "discrete GPU" cuda:0 ""), $(device vulkan:2 AMD "integrated GPU" "" ""),
    $(device vulkan:3 Mesa software "" "")]}'
P
cat >"$work/programs/conformance_tests" <<'P'
#!/bin/sh
echo "left out: $VK_LAYER_MESSAGE_ID_FILTER"
for device in $TESTED; do echo "testing on $device: a card"; done
echo "SKIPPED vulkan: the validation layer is not installed"
P
cp "$work/programs/conformance_tests" "$work/programs/engine_tests"
chmod +x "$work/programs"/*
cat >"$work/known" <<'P'
# a comment
NVIDIA VUID-one it is wrong
Intel  VUID-two of another machine
AMD    VUID-three so is this
P
failures=0
# expect CODE DEVICES TEXT...: run.sh ends with CODE where the tests test these devices, and prints each TEXT
expect() {
    local code=$1
    TESTED=$2 "$run" "$work/out" --programs "$work/programs" --only conformance --known "$work/known" >"$work/text" 2>&1
    local got=$?
    cat "$work/out/log.txt" >>"$work/text"
    shift 2
    ((got == code)) || { echo "exit code $got, expected $code"; failures=1; }
    for text; do
        grep -F -- "$text" "$work/text" >/dev/null || { echo "missing: $text"; failures=1; }
    done
    ((!failures)) || { cat "$work/text"; exit 1; }
}
expect 0 "cpu cuda:0 vulkan:1 vulkan:2" "known on NVIDIA, not counted: VUID-one: it is wrong" \
    "left out: VUID-one:VUID-three"
expect 1 "cpu cuda:0 vulkan:2" "conformance skipped vulkan:1: SKIPPED vulkan: the validation layer is not installed" \
    "FAILED: conformance-on-vulkan-1" "FAILED: engine-on-vulkan-1"
expect 1 "cpu vulkan:1 vulkan:2" "FAILED: conformance-on-cuda-0"
expect 1 "cpu cuda:0 vulkan:1" "FAILED: conformance-on-vulkan-2"

# pack.sh warns of a build for its own machine's cards only. It fails afterwards, since there are no programs to pack
# here.
mkdir -p "$work/built/tests"
for program in towers tests/conformance_tests tests/engine_tests; do
    printf '#!/bin/sh\n' >"$work/built/$program"
    chmod +x "$work/built/$program"
done
# packs TOWERS_CUDA COUNT: with this value, pack.sh warns COUNT times
packs() {
    printf 'TOWERS_CUDA:STRING=%s\nTOWERS_CUDA_ARCHITECTURES:INTERNAL=86 90\n' "$1" >"$work/built/CMakeCache.txt"
    "${run%run.sh}pack.sh" "$work/pack.tar.xz" --programs "$work/built" >"$work/text" 2>&1
    (($(grep -c "warning: .* is for the architectures 86 90 alone" "$work/text") == $2)) ||
        { echo "TOWERS_CUDA=$1: not $2 warnings"; cat "$work/text"; exit 1; }
}
packs AUTO 1
packs ON 0
