#!/bin/sh
# Conformance submits recordings whole from the first time on, as training does later: a barrier that is missing between
# two dispatches shows only there. The layer of tests/slow_vulkan tells how many dispatches each submission has.
# Usage: whole_recordings.sh CONFORMANCE_TESTS FOLDER_OF_THE_LAYER
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
VK_ADD_LAYER_PATH=$2 VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation:VK_LAYER_TOWERS_slow TOWERS_SLOW_LOG=$log \
    "$1" --test-case='sums that are split side by side*'
[ -s "$log" ] || { echo "SKIPPED: no Vulkan device"; exit; }
first=$(head -n 1 "$log")
[ "$first" -ge 3 ] || { echo "FAILED: the first submission has $first dispatches, not its recording's 3 or more"; exit 1; }
