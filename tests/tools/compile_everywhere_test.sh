#!/bin/sh
# Tests compile_everywhere on drivers that fail: stand-ins for compile_pipelines print what such drivers would print.
#   compile_everywhere_test.sh COMPILE_EVERYWHERE
set -u
tool=${1:?usage: compile_everywhere_test.sh COMPILE_EVERYWHERE}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# stand_in NAME SPILLS LAST_COMMAND
stand_in() {
    cat >"$work/$1" <<END
#!/bin/sh
echo '{"device": "a card", "driver": "a driver"}'
echo 'words of the driver }'
for pipeline in average "conv 64x64"; do
    echo "{\"begins\": \"\$pipeline\"}"
    echo "{\"pipeline\": \"\$pipeline\", \"executables\": [{\"name\": \"compute\", \"subgroup_size\": 64,
        \"statistics\": {\"Instructions\": 9, \"VGPRs\": 8, \"Spilled SGPRs\": 0, \"Spilled VGPRs\": $2,
        \"Scratch size\": 0, \"Subgroups per SIMD\": 4, \"Latency\": 5}}]}" | tr -d '\n'
    echo
done
$3
END
    chmod +x "$work/$1"
}
# expect CODE TEXT FLAGS...
expect() {
    code=$1 text=$2
    shift 2
    "$tool" --only '*navi21*' "$@" >"$work/out" 2>&1
    got=$?
    if [ $got -ne "$code" ] || ! grep -qF -- "$text" "$work/out" || grep -q Traceback "$work/out"; then
        cat "$work/out"
        echo "FAILED: compile_everywhere $*: exit code $got and this output instead of $code and '$text'"
        exit 1
    fi
}

stand_in good 0 true
expect 2 "is not a program" "$work/absent"
expect 2 "no chip fits" "$work/good" --only nothing
"$tool" --only '*navi21*' "$work/good" >"$work/out" 2>&1
if [ $? -eq 77 ]; then
    cat "$work/out"
    exit 77
fi
expect 0 "no pipeline spills" "$work/good" --json "$work/good.json"
expect 0 "nothing differs" "$work/good" --baseline "$work/good.json"
stand_in spilling 3 true
expect 1 "conv 64x64: 3 spills" "$work/spilling" --baseline "$work/good.json"
grep -q '^RADV navi21.*conv 64x64 *spills *0 *3' "$work/out" || { cat "$work/out"; echo "FAILED: the baseline"; exit 1; }
stand_in crashing 0 'echo "{\"begins\": \"conv 99x99\"}"; echo "an assertion" >&2; kill -ABRT $$'
expect 1 "conv 99x99: signal 6: an assertion" "$work/crashing"
stand_in silent 0 exit
sed -i 's/"Spilled VGPRs/"Others/;s/\\"Spilled VGPRs/\\"Others/' "$work/silent"
expect 1 "does not tell 'Spilled VGPRs'" "$work/silent"
echo '{"chips": {"RADV navi21 (RX 6800)": {"pipelines": {"average": 3}}}}' >"$work/other.json"
expect 2 "is not what --json wrote" "$work/good" --baseline "$work/other.json"
expect 2 "No such file" "$work/good" --json "$work/absent/x.json"
echo "compile_everywhere reports spills, crashes, silence and changes"
