#!/usr/bin/env bash
# Run this on a machine with an NVIDIA GPU. It checks CUDA, NVIDIA's Vulkan and the CPU against each other, trains for
# real, measures, compares with PyTorch, prints a short table and writes every figure to OUT.
#
# Usage: tests/gpu/run.sh OUT [--programs DIR] [--pack FILE] [--data DIR] [--only STEPS] [--stand-in DEVICE]
#                         [--known FILE]
#   --programs DIR    folder of a towers build (default: build/release, built first if it is missing)
#   --pack FILE       instead, an archive from tests/gpu/pack.sh, for a machine that lacks the libraries
#   --data DIR        folder with CIFAR-10's binary files (default: the drawn shapes)
#   --only STEPS      comma-separated list from conformance,parity,train,mixed,bench,peer,sanitizer (default: all)
#   --known FILE      validation messages that do not count (default: tests/gpu/known_messages.txt)
#   --stand-in DEVICE try this script without such a GPU, using e.g. vulkan:0 in place of cuda:0
#
# A message of the Vulkan validation layer fails the tests, unless the list of known ones has it for the vendor of a
# card of this machine. A card that `towers devices` shows and conformance skips is a failure.
#
# OUT gets log.txt (all output), figures.json, devices.json, bench-*.json and bench-128.html.
# Exit codes: 0, 1 (a check failed; the table says which), 2 (the command line is wrong).
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out='' programs='' pack='' data='' stand_in='' known=$root/tests/gpu/known_messages.txt
all=conformance,parity,train,mixed,bench,peer,sanitizer only=$all

fail() { echo "run.sh: $2" >&2; exit "$1"; }

while (($#)); do
    case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --programs | --pack | --data | --only | --known) (($# > 1)) || fail 2 "$1 needs a value"; printf -v "${1#--}" %s "$2"; shift 2 ;;
    --stand-in) (($# > 1)) || fail 2 "$1 needs a value"; stand_in=$2; shift 2 ;;
    -*) fail 2 "$1: there is no such flag; see --help" ;;
    *) [[ -z $out ]] || fail 2 "$1: give one folder"; out=$1; shift ;;
    esac
done
[[ -n $out ]] || fail 2 "give the folder for the figures: tests/gpu/run.sh OUT"
for step in ${only//,/ }; do
    case ,$all, in *,$step,*) ;; *) fail 2 "--only $step: there is no such step; see --help" ;; esac
done
[[ -r $known ]] || fail 2 "--known $known: cannot read it"
mkdir -p "$out" && out=$(cd "$out" && pwd) || fail 1 "cannot make $out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
export TOWERS_SOURCE=$root # where the tests find their fixtures
rm -f "$out"/{figures,bench-128,bench-1024}.json "$out/bench-128.html" # left by an earlier run
log=$out/log.txt
figures=$work/figures.jsonl
: >"$log"
: >"$figures"

if [[ -n $pack ]]; then
    mkdir "$work/pack"
    tar -xJf "$pack" -C "$work/pack" || fail 1 "$pack: cannot unpack; make it with tests/gpu/pack.sh"
    programs=$work/pack/bin
    export LD_LIBRARY_PATH=$work/pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export VK_ADD_LAYER_PATH=$work/pack/layers
    [[ ! -f $work/pack/lavapipe.json ]] || export VK_ADD_DRIVER_FILES=$work/pack/lavapipe.json
elif [[ -z $programs ]]; then
    programs=$root/build/release
    [[ -x $programs/towers ]] || sh "$root/cmake/quickstart.sh" test -N >>"$log" 2>&1 ||
        fail 1 "cannot build; see $log"
fi
# NVIDIA's Vulkan driver may lie where the loader does not look
for icd in /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json; do
    [[ ! -f $icd ]] || export VK_ADD_DRIVER_FILES=${VK_ADD_DRIVER_FILES:+$VK_ADD_DRIVER_FILES:}$icd
done
towers=$programs/towers
tests=$programs
[[ ! -d $programs/tests ]] || tests=$programs/tests
[[ -x $towers ]] || fail 1 "no towers program in $programs: build it, or give the folder with --programs"

figure() { printf '{"name": "%s", "value": %s, "unit": "%s"}\n' "$1" "${2:-null}" "$3" >>"$figures"; } # NAME NUMBER UNIT
failed=0
# check NAME COMMAND...: writes the output to the log and to $work/NAME.log, and the result to the figures
check() {
    local name=$1 begin=$EPOCHREALTIME code
    shift
    printf '\n=== %s: %s\n' "$name" "$*" >>"$log"
    "$@" >"$work/$name.log" 2>&1
    code=$?
    cat "$work/$name.log" >>"$log"
    local seconds
    seconds=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begin }")
    if ((code)); then failed=1; fi
    figure "$name" "$([[ $code == 0 ]] && echo true || echo false)" "in $seconds s"
    printf '%-34s %-8s %6s s  %s\n' "$name" "$( ((code)) && echo FAILED || echo passed)" "$seconds" \
        "$(grep -v '^ *$' "$work/$name.log" | tail -n 1 | cut -c1-110)"
    return $code
}
wanted() { [[ ,$only, == *,$1,* ]]; }
# losses NAME: prints the losses from the run's metrics, one per line
losses() { python3 -c 'import json,sys
for line in open(sys.argv[1]): print(json.loads(line)["loss"])' "$work/run-$1/metrics.jsonl"; }
train() { # NAME TOWERS STEPS BATCH [FLAGS]
    local name=$1 devices=$2 steps=$3 batch=$4
    shift 4
    check "train-$name" "$towers" train --data "${data:-shapes}" --towers "$devices" --steps "$steps" --batch "$batch" \
        --run "$work/run-$name" --progress log "$@"
}

# --- the devices
"$towers" devices --json >"$out/devices.json" 2>>"$log" || fail 1 "'towers devices' failed; see $log"
"$towers" devices | tee -a "$log"
pick() { python3 - "$out/devices.json" "$1" <<'P'
import json, sys
listed = json.load(open(sys.argv[1]))["devices"]
def first(wanted): print(next((d["id"] for d in listed if wanted(d)), ""))
if sys.argv[2] == "cuda": first(lambda d: d["id"].startswith("cuda:"))
if sys.argv[2] == "vulkan":
    cards = [d for d in listed if d["id"].startswith("vulkan:") and d["vendor"] == "NVIDIA" and not d["withheld"]]
    print(next((d["id"] for d in cards if d["same_card_as"].startswith("cuda:")), cards[0]["id"] if cards else ""))
if sys.argv[2] == "cards": print(*(d["id"] for d in listed if "GPU" in d["kind"] and not d["withheld"]))
if sys.argv[2] == "vendors": print(*sorted({d["vendor"] for d in listed if d["id"].startswith("vulkan:")}), sep="\n")
if sys.argv[2] == "mesa": first(lambda d: d["kind"] == "software" and d["vendor"] == "Mesa")
P
}
cuda=${stand_in:-$(pick cuda)} vulkan=${stand_in:-$(pick vulkan)} mesa=$(pick mesa)
[[ -n $cuda ]] || fail 1 "no CUDA device here: $(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["absent"].get("cuda"))' "$out/devices.json")"
[[ -n $vulkan ]] || { echo "Vulkan does not show the NVIDIA GPU: its checks are FAILED"; failed=1; figure vulkan_sees_nvidia false ""; }
# The known messages for the vendors of this machine's cards, each with its reason
known_messages=''
while read -r vendor message reason; do
    [[ $vendor != '#'* && -n $vendor ]] || continue
    pick vendors | grep -xF "$vendor" >/dev/null || continue
    echo "known on $vendor, not counted: $message: $reason" | tee -a "$log"
    known_messages=$known_messages${known_messages:+:}$message
done <"$known"
[[ -z $known_messages ]] || export VK_LAYER_MESSAGE_ID_FILTER=$known_messages
# The least precision after 2000 steps. On photographs, a PyTorch copy of the tutorial reaches 0.686. On the drawn
# shapes, at half the learning rate, the network then makes no mistakes.
steps=2000 rate_steps=300 rate=0.1 least=0.66
[[ -n $data ]] || { rate=0.05 least=0.95; }
[[ -z $stand_in ]] || { steps=12 rate_steps=12 least=0; }

# --- every kernel on every device, and the network against PyTorch's numbers
if wanted conformance; then
    check conformance-nan "$tests/conformance_tests" --test-case='*NaN*' # a proprietary compiler may get NaN wrong
    # ran NAME DEVICE: whether the output of check NAME says that it tested DEVICE
    ran() { grep "^testing on $2: " "$work/$1.log" || { echo "$1 skipped $2: $(grep -m 1 ^SKIPPED "$work/$1.log")"; false; }; }
    for name in conformance engine; do
        check $name "$tests/${name}_tests"
        for device in $(printf '%s\n' "$cuda" $vulkan $(pick cards) | sort -u); do
            check "$name-on-${device/:/-}" ran $name "$device"
        done
    done
fi
if wanted parity; then
    check parity-cuda "$towers" parity --towers "cpu,$cuda" --data "${data:-shapes}"
    [[ -z $vulkan ]] || check parity-vulkan "$towers" parity --towers "$cuda,$vulkan" --data "${data:-shapes}"
fi

# --- real training: compares the first losses with the CPU's, then checks the tutorial's precision
if wanted train; then
    for device in cpu "$cuda" $vulkan; do
        [[ -d $work/run-first-${device/:/-} ]] || train "first-${device/:/-}" "$device" 10 128 --log-every 1
    done
    for device in "$cuda" $vulkan; do
        difference=$(paste <(losses first-cpu) <(losses "first-${device/:/-}") |
            awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > m) m = d; ++n } END { if (n != 10) print 1; else printf "%.3g", m }')
        figure "first_losses_${device/:/-}_relative_difference" "$difference" ""
        if awk "BEGIN { exit !($difference > 1e-3) }"; then failed=1; echo "first losses of $device differ from the CPU's: $difference"; fi
    done
    for device in "$cuda" $vulkan; do
        name=full-${device/:/-}
        [[ -d $work/run-$name ]] || train "$name" "$device" "$steps" 128 --lr "$rate"
        check "eval-${device/:/-}" "$towers" eval --run "$work/run-$name" --towers "$device"
        precision=$(sed -nE 's/.*precision @ 1 = ([0-9.]+).*/\1/p' "$work/eval-${device/:/-}.log")
        figure "precision_${device/:/-}" "$precision" ""
        if awk "BEGIN { exit !(${precision:-0} < $least) }"; then failed=1; echo "precision of $device is ${precision:-none}, but must be at least $least"; fi
    done
fi

# --- several towers: one card through both backends, and two vendors at once
if wanted mixed; then
    [[ -z $vulkan ]] || train mixed-backends "$cuda,$vulkan" "$rate_steps" 128 --shares even
    [[ -z $mesa ]] || train mixed-vendors "$cuda,$mesa" 6 64 --shares 7:1 --log-every 1
    [[ -z $mesa || -z $vulkan ]] || train mixed-vulkan-vendors "$vulkan,$mesa" 6 64 --shares 7:1 --log-every 1
fi

if wanted bench; then
    check bench-128 "$towers" bench --towers "$cuda${vulkan:+,$vulkan},cpu" --batch 128 --json "$out/bench-128.json" \
        --html "$out/bench-128.html"
    [[ -n $stand_in ]] || check bench-1024 "$towers" bench --towers "$cuda${vulkan:+,$vulkan}" --batch 1024 \
        --json "$out/bench-1024.json"
fi

# --- the peer, in the same session
if wanted peer; then
    device=cuda
    [[ -z $stand_in ]] || device=cpu
    for batch in 128 1024; do
        for precision in fp32 tf32; do
            for mode in eager cuda-graph compile-cuda-graph; do
                [[ -z $stand_in || $batch-$precision-$mode == 128-fp32-eager ]] || continue
                name=peer-$batch-$precision-$mode
                check "$name" python3 -B "$root/tests/peers/pytorch_cifar10.py" --device $device --mode $mode \
                    --precision $precision --batch $batch --seconds 3 --json || continue
                figure "$name" "$(sed -nE 's/.*"examples_per_second": ([0-9.]+).*/\1/p' "$work/$name.log")" "examples/s"
            done
        done
    done
fi

if wanted sanitizer; then
    if command -v compute-sanitizer >/dev/null; then
        for tool in memcheck racecheck; do
            check "sanitizer-$tool" compute-sanitizer --tool $tool --error-exitcode 9 "$towers" train --data shapes \
                --towers "$cuda" --steps 2 --batch 16 --run "$work/run-sanitizer-$tool"
        done
    else
        echo "compute-sanitizer is not on PATH: skipped"
    fi
fi

# --- the short table
python3 - "$figures" "$out" <<'P' | tee -a "$log" || failed=1
import json, os, sys
figures = [json.loads(line) for line in open(sys.argv[1])]
rates = {}
for batch in (128, 1024):
    path = os.path.join(sys.argv[2], f"bench-{batch}.json")
    if os.path.exists(path):
        for device in json.load(open(path))["devices"]:
            rates[batch, device["id"]] = device["examples_per_s"]["median"]
            figures.append({"name": f"bench-{batch}-{device['id']}", "value": rates[batch, device["id"]], "unit": "examples/s"})
json.dump(figures, open(os.path.join(sys.argv[2], "figures.json"), "w"), indent=1)
peers = {f["name"]: f["value"] for f in figures if f["value"] is not None and f["unit"] == "examples/s" and f["name"].startswith("peer-")}
print("\nexamples/s, whole training steps")
for (batch, device), rate in rates.items():
    line = f"  batch {batch:5} {device:10} {rate:12.0f}"
    for mode in ("fp32-eager", "fp32-cuda-graph", "fp32-compile-cuda-graph"):
        if peer := peers.get(f"peer-{batch}-{mode}"):
            line += f"   {rate / peer:.2f} x PyTorch {mode}"
    print(line)
for name, value in peers.items():
    print(f"  {name:40} {value:12.0f}")
for f in figures:
    if f["value"] is False:
        print(f"FAILED: {f['name']}")
    elif f["value"] is None:
        print(f"no value: {f['name']}")
    elif f["value"] is not True and f["unit"] == "":
        print(f"{f['name']}: {f['value']}")
P
exit $failed
