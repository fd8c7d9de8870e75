#!/bin/sh
# Tests that conformance submits recordings uncut from the first time on: only then does a missing barrier between two
# dispatches show. The layer of tests/slow_vulkan counts the dispatches in each submission.
# Usage: whole_recordings.sh CONFORMANCE_TESTS FOLDER_OF_THE_LAYER
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
VK_ADD_LAYER_PATH=$2 VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation:VK_LAYER_TOWERS_slow TOWERS_SLOW_LOG=$log \
    "$1" --test-case='sums that are split side by side*'
[ -s "$log" ] || { echo "SKIPPED: no Vulkan device"; exit; }
first=$(head -n 1 "$log")
[ "$first" -ge 3 ] || { echo "FAILED: the first submission has $first dispatches, not its recording's 3 or more"; exit 1; }
