#!/usr/bin/env bash
# Run this on a machine with an NVIDIA GPU. It checks CUDA, NVIDIA's Vulkan and the CPU against each other, trains for
# real, measures, and compares with PyTorch.
#
# Usage: tests/gpu/run.sh OUT [PART...] [--programs DIR | --pack FILE] [--data DIR] [--known FILE] [--stand-in DEVICE]
#   quick             the default, about three minutes: tests of kernels and engine, parity and trainings beside each
#                     other; then the steps of four recipes, tuned or not, on CUDA and Vulkan, beside PyTorch's
#   peers             PyTorch's steps in fp32, TF32 and bf16: eager, as CUDA graphs, compiled
#   traces            every kernel of the recipes' steps, a timeline of towers of both backends and the CPU, and what
#                     Vulkan's compiler tells of each pipeline
#   kills             a run of such towers, killed and resumed while other programs use card and processors: same bits?
#   sanitizers        compute-sanitizer's memcheck and racecheck of two steps
#   --programs DIR    folder of a towers build (default: build/release, built first if it is missing)
#   --pack FILE       instead, an archive from tests/gpu/pack.sh, for a machine that lacks the libraries
#   --data DIR        folder with CIFAR-10's binary files (default: the drawn shapes)
#   --known FILE      validation messages that do not count (default: tests/gpu/known_messages.txt)
#   --stand-in DEVICE try this script without such a GPU: this device, e.g. vulkan:0, in place of both, and small work
#
# A message of the Vulkan validation layer fails the tests, unless the list of known ones has it for the vendor of a
# card of this machine. A card that `towers devices` shows and the tests skip is a failure.
#
# OUT gets log.txt (all output), figures.jsonl (a line for each figure), devices.json, and files of `traces`. All is
# written as it comes, so a run that is cut off loses only what it was doing.
# Exit codes: 0, 1 (a check failed; the last lines say which), 2 (the command line is wrong).
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out='' programs='' pack='' data=shapes stand_in='' known=$root/tests/gpu/known_messages.txt parts=()

fail() { echo "run.sh: $2" >&2; exit "$1"; }

while (($#)); do
    case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --programs | --pack | --data | --known) (($# > 1)) || fail 2 "$1 needs a value"; printf -v "${1#--}" %s "$2"; shift 2 ;;
    --stand-in) (($# > 1)) || fail 2 "$1 needs a value"; stand_in=$2; shift 2 ;;
    -*) fail 2 "$1: there is no such flag; see --help" ;;
    quick | peers | traces | kills | sanitizers) [[ -n $out ]] || fail 2 "give the folder for the figures first"; parts+=("$1"); shift ;;
    *) [[ -z $out ]] || fail 2 "$1: there is no such part; see --help"; out=$1; shift ;;
    esac
done
[[ -n $out ]] || fail 2 "give the folder for the figures: tests/gpu/run.sh OUT"
[[ -r $known ]] || fail 2 "--known $known: cannot read it"
mkdir -p "$out" && out=$(cd "$out" && pwd) || fail 1 "cannot make $out"
work=$(mktemp -d)
trap 'cat "$work"/*.running >>"$out/log.txt" 2>/dev/null; rm -rf "$work"' EXIT
# In each shell that waits for a program, since shells in the background do not take it over
end_with_programs() { trap 'kill $(jobs -p) 2>/dev/null; wait; exit 1' TERM INT; }
end_with_programs
export XDG_CACHE_HOME=$work/cache
export TOWERS_SOURCE=$root # where the tests find their fixtures
log=$out/log.txt figures=$out/figures.jsonl
: >"$log"
: >"$figures"

python=(env LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}" python3 -B) # without the pack's libraries
if [[ -n $pack ]]; then
    mkdir "$work/pack"
    tar -xJf "$pack" -C "$work/pack" || fail 1 "$pack: cannot unpack; make it with tests/gpu/pack.sh"
    programs=$work/pack/bin
    export LD_LIBRARY_PATH=$work/pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export VK_ADD_LAYER_PATH=$work/pack/layers
    export VK_ADD_DRIVER_FILES=$work/pack/swiftshader/vk_swiftshader_icd.json
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
# check NAME SECONDS COMMAND...: ends it after so many seconds, writes its output to the log and its result to the figures
check() {
    local name=$1 limit=$2 begin=$EPOCHREALTIME code seconds result=FAILED
    shift 2
    printf '\n=== %s: %s\n' "$name" "$*" >"$work/$name.running"
    end_with_programs
    timeout -k 10 "$limit" "$@" >>"$work/$name.running" 2>&1 &
    wait $!
    code=$?
    cat "$work/$name.running" >>"$log"
    mv "$work/$name.running" "$work/$name.log"
    seconds=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begin }")
    case $code in 0) result=passed ;; 124 | 137) result='TOO LONG' ;; esac
    figure "$name" "$([[ $result == passed ]] && echo true || echo false)" "in $seconds s"
    printf '%-40s %-8s %6s s  %s\n' "$name" "$result" "$seconds" \
        "$(grep -av '^ *$' "$work/$name.log" | tail -n 1 | cut -c1-100)"
    return $code
}
# require NAME CONDITION WHY: a failure that is not a program's own
require() { awk "BEGIN { exit !($2) }" || { figure "$1" false "$3"; echo "$1: $3"; }; }

# --- the devices
"$towers" devices --json >"$out/devices.json" 2>>"$log" || fail 1 "'towers devices' failed; see $log"
"$towers" devices | tee -a "$log"
pick() { "${python[@]}" - "$out/devices.json" "$1" <<'P'
import json, sys
listed = json.load(open(sys.argv[1]))["devices"]
def first(wanted): print(next((d["id"] for d in listed if wanted(d)), ""))
if sys.argv[2] == "cuda": first(lambda d: d["id"].startswith("cuda:"))
if sys.argv[2] == "vulkan":
    cards = [d for d in listed if d["id"].startswith("vulkan:") and d["vendor"] == "NVIDIA" and not d["withheld"]]
    print(next((d["id"] for d in cards if d["same_card_as"].startswith("cuda:")), cards[0]["id"] if cards else ""))
if sys.argv[2] == "cards": print(*(d["id"] for d in listed if "GPU" in d["kind"] and not d["withheld"]))
if sys.argv[2] == "vendors": print(*sorted({d["vendor"] for d in listed if d["id"].startswith("vulkan:")}), sep="\n")
if sys.argv[2] == "software": first(lambda d: d["kind"] == "software")
P
}
cuda=${stand_in:-$(pick cuda)} vulkan=${stand_in:-$(pick vulkan)} software=$(pick software)
[[ -n $cuda ]] || fail 1 "no CUDA device here: $("${python[@]}" -c 'import json,sys; print(json.load(open(sys.argv[1]))["absent"].get("cuda"))' "$out/devices.json")"
require vulkan_sees_nvidia "length(\"$vulkan\")" "Vulkan does not show the NVIDIA GPU, so nothing is checked there"
backends=("$cuda")
[[ -z $vulkan || $vulkan == "$cuda" ]] || backends+=("$vulkan")
# The known messages for the vendors of this machine's cards, each with its reason
known_messages=''
while read -r vendor message reason; do
    [[ $vendor != '#'* && -n $vendor ]] || continue
    pick vendors | grep -xF "$vendor" >/dev/null || continue
    echo "known on $vendor, not counted: $message: $reason" | tee -a "$log"
    known_messages=$known_messages${known_messages:+:}$message
done <"$known"
[[ -z $known_messages ]] || export VK_LAYER_MESSAGE_ID_FILTER=$known_messages

# The recipes whose steps are measured: name, batch, side of images where it is not the recipe's, and steps that take an
# H100 about two seconds.
recipes='cifar10-tutorial 128 - 3000
cifar10-resnet20 128 - 500
cifar10-fast 512 - 50
imagenet-resnet18 256 64 150'
# The least precision after 2000 steps. On photographs, a PyTorch copy of the tutorial reaches 0.686. On the drawn
# shapes, at half the learning rate, the network then makes no mistakes.
steps=2000 rate=0.1 least=0.66 killed_steps=150 kills=20 peer_device=cuda few=()
[[ $data != shapes ]] || { rate=0.05 least=0.95; }
[[ -z $stand_in ]] || {
    recipes='cifar10-tutorial 4 - 2
imagenet-resnet18 32 32 2'
    steps=12 least=0 killed_steps=10 kills=2 peer_device=cpu few=(--batch 8)
}

train() { # NAME SECONDS TOWERS [FLAGS]
    local name=$1 limit=$2 devices=$3
    shift 3
    check "$name" "$limit" "$towers" train --data "$data" --towers "$devices" --threads 3 --run "$work/run-$name" \
        --progress log "$@"
}
# recipe_flags NAME BATCH IMAGE: of `train` and `bench`
recipe_flags() {
    echo "--recipe $1 --batch $2"
    [[ $3 == - ]] || echo "--set input.shape=[$3,$3,3]"
}
has_pytorch() { "${python[@]}" -c 'import importlib.util as i; exit(not i.find_spec("torch"))'; }
# peer RECIPE BATCH IMAGE MODE PRECISION SECONDS: PyTorch's examples/s, where it is installed
peer() {
    has_pytorch || { echo "no PyTorch beside $1"; return; }
    local name=$1-pytorch-$5-$4 program=(tests/peers/train_in_pytorch.py --speed --recipe "$1")
    [[ $1 != cifar10-tutorial ]] || program=(tests/peers/pytorch_cifar10.py)
    [[ $3 == - ]] || program+=(--image "$3")
    check "$name" "$6" "${python[@]}" "$root/${program[0]}" "${program[@]:1}" --batch "$2" --device $peer_device \
        --mode "$4" --precision "$5" --group 10 --warmup 0.2 --seconds 0.7 --json || return
    figure "steps-$name" "$(sed -nE 's/.*"examples_per_second": ([0-9.]+).*/\1/p' "$work/$name.log")" examples/s
}

learns() { # DEVICE: trains the tutorial
    train "train-${1/:/-}" 120 "$1" --steps $steps --lr $rate "${few[@]}"
    check "eval-${1/:/-}" 60 "$towers" eval --run "$work/run-train-${1/:/-}" --towers "$1" --threads 3
    local precision
    precision=$(sed -nE 's/.*precision @ 1 = ([0-9.]+).*/\1/p' "$work/eval-${1/:/-}.log")
    figure "precision-${1/:/-}" "$precision" ""
    require "precision-${1/:/-}-is-enough" "${precision:-0} >= $least" "it is ${precision:-none}, but must be at least $least"
}
# measure_steps RECIPE BATCH IMAGE STEPS DEVICE TUNE: examples/s of whole steps, the median of what `train` logs after its start
measure_steps() {
    local name=$1-${5/:/-}-tune-$6 flags
    mapfile -t flags < <(recipe_flags "$1" "$2" "$3" | tr ' ' '\n')
    [[ $3 == - ]] || local data=shapes
    train "$name" 45 "$5" "${flags[@]}" --steps "$4" --log-every $((($4 + 9) / 10)) --save-every 0 --tune "$6" || return
    figure "steps-$name" "$(sed -nE 's|.*: step [0-9]+, loss = .*\(([0-9.]+) examples/sec;.*|\1|p' "$work/$name.log" |
        tail -n +2 | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')" examples/s
}

quick() {
    local device each mixed recipe batch image count
    check conformance 170 "$tests/conformance_tests" --test-suite-exclude=slow &
    check engine 170 "$tests/engine_tests" &
    {
        check parity-cuda 60 "$towers" parity --towers "cpu,$cuda" --data "$data" --threads 3 "${few[@]}"
        [[ -z $vulkan ]] || check parity-vulkan 60 "$towers" parity --towers "$cuda,$vulkan" --data "$data" "${few[@]}"
        check parity-contrast 60 "$towers" parity --towers "cpu,$cuda" --recipe cifar10-resnet20 --threads 3 --steps 0 \
            --set 'pipeline.train.contrast=[0.5,1.5]'
        mixed=$cuda${vulkan:+,$vulkan},cpu${software:+,$software}
        train mixed 60 "$mixed" --shares even --batch 8 --steps 6
    } &
    for device in "${backends[@]}"; do learns "$device"; done &
    wait
    for each in conformance engine; do
        for device in $(printf '%s\n' "${backends[@]}" $(pick cards) | sort -u); do
            grep "^testing on $device: " "$work/$each.log" >/dev/null
            require "$each-on-${device/:/-}" $((!$?)) "it skipped $device: $(grep -m 1 ^SKIPPED "$work/$each.log")"
        done
    done
    while read -r recipe batch image count; do
        for device in "${backends[@]}"; do
            for each in off auto quick; do measure_steps "$recipe" "$batch" "$image" "$count" "$device" $each; done
        done
        peer "$recipe" "$batch" "$image" "$([[ $peer_device == cuda ]] && echo cuda-graph || echo eager)" fp32 40
    done <<<"$recipes"
}

peers() {
    has_pytorch || { require peers-have-pytorch 0 "PyTorch is missing; install it for python3"; return; }
    while read -r recipe batch image _; do
        for precision in fp32 tf32 bf16; do
            for mode in eager cuda-graph compile-cuda-graph; do
                [[ $peer_device == cuda || $precision-$mode == fp32-eager ]] || continue
                peer "$recipe" "$batch" "$image" $mode $precision 90
            done
        done
    done <<<"$recipes"
}

traces() {
    local flags
    while read -r recipe batch image _; do
        mapfile -t flags < <(recipe_flags "$recipe" "$batch" "$image" | tr ' ' '\n')
        check "bench-$recipe" 60 "$towers" bench --towers "$cuda${vulkan:+,$vulkan}" "${flags[@]}" --repetitions 3 \
            --seconds 0.4 --json "$out/bench-$recipe.json"
    done <<<"$recipes"
    [[ $vulkan != vulkan:* ]] || check pipelines 120 sh -c '"$1" "$2" >"$3"' - "$tests/compile_pipelines" "$vulkan" \
        "$out/pipelines.jsonl"
    train trace 60 "$cuda${vulkan:+,$vulkan},cpu" --steps $((steps / 10 + 2)) --trace "$out/trace.json" --trace-steps 5
}

kills() {
    local flags=(train --data "$data" --towers "$cuda${vulkan:+,$vulkan},cpu" --shares "4${vulkan:+:3}:1" "${few[@]:---batch=32}"
        --threads 2 --steps "$killed_steps" --save-every $((killed_steps / 4)) --progress log --tune off)
    local begin=$SECONDS killed=0 round=0 life end load=() resume code each run log_of
    check kills-undisturbed 120 "$towers" "${flags[@]}" --run "$work/undisturbed" || return
    life=$((SECONDS - begin + 1))
    for each in "$cuda" cpu; do
        "$towers" train --towers "$each" --threads 8 --steps 1000000 --save-every 0 --run "$work/load-$each" >/dev/null 2>&1 &
        load+=($!)
    done
    while ((killed < kills && SECONDS - begin < 240)); do
        run=$work/killed-$((++round)) log_of=$work/kills-$round.running end=$((SECONDS + 60 + 10 * life))
        while ((SECONDS < end)) && resume=() && { ! compgen -G "$run/model.ckpt-*" >/dev/null || resume=(--resume); }; do
            timeout -s KILL "$(awk "BEGIN { srand($RANDOM); print 0.3 + 2 * $life * rand() }")" \
                "$towers" "${flags[@]}" --run "$run" "${resume[@]}" >>"$log_of" 2>&1
            code=$?
            ((code == 137)) && ((++killed)) || break
        done 2>>"$log" # where bash names each killed program
        cat "$log_of" >>"$log"
        rm "$log_of"
        require "kills-$round-ends" $((code == 0)) "exit code $code; see the log"
        check "kills-$round-same-bits" 30 "${python[@]}" "$root/tests/os/compare_checkpoints.py" \
            "$work/undisturbed/model.ckpt-$killed_steps.safetensors" "$run/model.ckpt-$killed_steps.safetensors"
    done
    kill "${load[@]}"
    wait
    figure kills "$killed" "in $round runs"
    echo "$killed kills in $round runs"
}

sanitizers() {
    local sanitizer
    sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | tail -n 1)
    require sanitizers-have-program "length(\"$sanitizer\")" "compute-sanitizer is missing; install it from the CUDA toolkit"
    [[ -n $sanitizer ]] || return
    for tool in memcheck racecheck; do
        check "sanitizer-$tool" 120 "$sanitizer" --tool $tool --error-exitcode 9 "$towers" train --data shapes \
            --towers "$cuda" --steps 2 --batch 16 --run "$work/run-sanitizer-$tool"
    done
}

for part in "${parts[@]:-quick}"; do $part; done

# --- the table of steps, and what failed
"${python[@]}" - "$figures" <<'P' | tee -a "$log"
import json, sys
figures = [json.loads(line) for line in open(sys.argv[1])]
steps = [(f["name"].removeprefix("steps-"), f["value"]) for f in figures if f["name"].startswith("steps-") and f["value"]]
if steps: print("\nexamples/s, whole training steps")
for name, value in steps: print(f"  {name:50} {value:12.0f}")
for f in figures:
    if f["value"] is False: print(f"FAILED: {f['name']} ({f['unit']})")
    elif f["value"] is None: print(f"no value: {f['name']}")
P
! grep -q '"value": false' "$figures"
