#!/bin/sh
# Compiles every pipeline with Mesa's driver for several AMD chips, which need not be present. Fails if one spills.
#   no_spills.sh COMPILE_PIPELINES
# Prints SKIPPED and exits with 77 if Mesa's AMD driver is not installed.
set -u
program=${1:?usage: no_spills.sh COMPILE_PIPELINES}
icd=$(ls /usr/share/vulkan/icd.d/radeon_icd*.json 2>/dev/null | head -1)
if [ -z "$icd" ]; then
    echo "SKIPPED: Mesa's AMD driver is not installed (mesa-vulkan-drivers)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for chip in polaris10 vega10 navi10 navi21 gfx1100; do
    if ! env RADV_FORCE_FAMILY=$chip RADV_DEBUG=shaderstats,nocache VK_DRIVER_FILES="$icd" XDG_CACHE_HOME="$work" \
        "$program" >"$work/stats" 2>&1; then
        echo "$chip: did not compile: $(tail -1 "$work/stats")"
        failed=1
        continue
    fi
    count=$(grep -c 'Spilled VGPRs' "$work/stats")
    spills=$(grep -E 'Spilled (S|V)GPRs|Scratch size' "$work/stats" | grep -cv ': 0$')
    echo "$chip: $count pipelines, $spills with spills or scratch memory, at most $(sed -n 's/^VGPRs: //p' "$work/stats" | sort -n | tail -1) VGPRs"
    if [ "$count" -eq 0 ] || [ "$spills" -ne 0 ]; then failed=1; fi
done
exit $failed
