#!/usr/bin/env bash
# Compares `towers train` on the CPU with the same network in PyTorch or TensorFlow. The two take turns on the same cores.
#
# Usage: tests/peers/compare_cpu.sh [--recipe NAME] [--image N] [--build DIR] [--data PATH] [--batch N] [--steps N]
#            [--rounds N] [--python PROGRAM]
#   --recipe NAME     cifar10-tutorial (default), or another that train_in_pytorch.py knows: cifar10-resnet20, cifar10-fast,
#                     imagenet-resnet18 (torchvision's network)
#   --image N         images of NxN in place of the recipe's; not for cifar10-tutorial
#   --build DIR       folder of a towers build (default: build/release, else build/ci)
#   --data PATH       data for towers (default: shapes); PyTorch gets prepared random images
#   --batch N         examples per step (default 128)
#   --steps N         timed steps of each run, a multiple of 10 (default 120)
#   --rounds N        runs of each program, A B A B ... (default 3)
#   --peer NAME       pytorch (default), or tensorflow, which has cifar10-tutorial only
#   --python PROGRAM  a Python that has the peer (default /usr/bin/python3)
# Any other argument goes to pytorch_cifar10.py, e.g. --mode compile, to train_in_pytorch.py --speed, or to
# tensorflow_cifar10.py.
#
# The step of towers also gathers and distorts its images. The peer's does not, so the ratio is a lower bound.
# Each run prints how much of the machine other programs used meanwhile. Do not trust a run above 5 %.
# Exit codes: 0, 1 (a program failed or is missing), 2 (the command line is wrong).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
peer_name=pytorch recipe=cifar10-tutorial image='' build='' data=shapes batch=128 steps=120 rounds=3 python=/usr/bin/python3
warm_up_lines=3 # of the log of towers: steps 0, 10 and 20
peer_options=()

fail() { echo "compare_cpu.sh: $2" >&2; exit "$1"; }

while (($#)); do
    case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --recipe | --image | --build | --data | --batch | --steps | --rounds | --python | --peer)
        (($# > 1)) || fail 2 "$1 needs a value"
        name=${1#--}
        if [[ $name == peer ]]; then name=peer_name; fi
        printf -v "$name" %s "$2"
        shift 2 ;;
    *) peer_options+=("$1"); shift ;;
    esac
done
for number in "$batch" "$steps" "$rounds" "${image:-1}"; do
    [[ $number =~ ^[1-9][0-9]*$ ]] || fail 2 "$number is not a positive number"
done

towers_options=(--recipe "$recipe")
case $peer_name in
pytorch) module=torch install="apt-get install python3-torch libopenblas0-openmp" ;;
tensorflow)
    module=tensorflow install="pip install tensorflow-cpu"
    [[ $recipe == cifar10-tutorial ]] || fail 2 "tensorflow has cifar10-tutorial only; $recipe is for --peer pytorch" ;;
*) fail 2 "--peer $peer_name: must be pytorch or tensorflow" ;;
esac
if [[ $recipe == cifar10-tutorial ]]; then
    peer=("$here/${peer_name}_cifar10.py")
    [[ -z $image ]] || fail 2 "cifar10-tutorial has images of one size; --image is for other recipes"
else
    peer=("$here/train_in_pytorch.py" --speed --recipe "$recipe")
fi
if [[ -n $image ]]; then
    towers_options+=(--set "input.shape=[$image,$image,3]")
    peer+=(--image "$image")
fi

"$python" -c "import $module" 2>/dev/null ||
    fail 1 "$python has no $module: $install, or name another with --python"

towers=''
if [[ -n $build ]]; then builds=("$build"); else builds=("$root/build/release" "$root/build/ci"); fi
for folder in "${builds[@]}"; do
    for candidate in "$folder"/towers "$folder"/apps/towers/towers "$folder"/bin/towers; do
        if [[ -z $towers && -f $candidate && -x $candidate ]]; then towers=$candidate; fi
    done
done
[[ -n $towers ]] || fail 1 "no towers program in ${builds[*]}: build it, or give the folder with --build"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Both programs get every core that this shell may use. malloc keeps memory instead of returning it to the system at
# every step, which makes the peers 20 to 30 % faster.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$(nproc)}"
export MALLOC_TOP_PAD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_MMAP_THRESHOLD_=4294967296

busy_seconds() { # summed over all cores, since boot
    awk -v hertz="$(getconf CLK_TCK)" '/^cpu / { print ($2 + $3 + $4 + $7 + $8 + $9) / hertz }' /proc/stat
}

median() { sort -g | awk '{ v[NR] = $1 } END { if (!NR) exit 1; m = int((NR + 1) / 2); print (NR % 2 ? v[m] : (v[m] + v[m + 1]) / 2) }'; }

# measure NAME COMMAND...: writes the output to $work/NAME.log and sets $others to other programs' share of the machine
measure() {
    local name=$1 before after TIMEFORMAT='%R %U %S'
    shift
    before=$(busy_seconds)
    { time "$@" >"$work/$name.log" 2>&1; } 2>"$work/$name.time" || {
        tail -n 20 "$work/$name.log" >&2
        fail 1 "$name failed: $*"
    }
    after=$(busy_seconds)
    others=$(awk -v busy="$(awk "BEGIN { print $after - $before }")" -v cores="$(getconf _NPROCESSORS_ONLN)" \
        '{ o = 100 * (busy - $2 - $3) / ($1 * cores); printf "%.0f", (o > 0 ? o : 0) }' "$work/$name.time")
}

report() { # NAME RATE
    printf '%-8s %9.1f examples/s   (others: %s %% of the machine)\n' "$1" "$2" "$others"
    if ((others > 5)); then disturbed=1; fi
}

disturbed=0 blas=''
echo "$towers: $recipe, ${image:+images of ${image}x$image, }batch $batch, $OMP_NUM_THREADS threads, $steps steps, on $data"
for ((round = 1; round <= rounds; round++)); do
    measure towers "$towers" train "${towers_options[@]}" --backend cpu --batch "$batch" --data "$data" \
        --steps $((steps + 10 * warm_up_lines)) --log-every 10 --run "$work/run-$round"
    rate=$(sed -nE 's|.*: step [0-9]+, loss = .*\(([0-9.]+) examples/sec;.*|\1|p' "$work/towers.log" |
        tail -n +$((warm_up_lines + 1)) | median) || {
        tail -n 20 "$work/towers.log" >&2
        fail 1 "towers logged no 'step N, loss = ... (... examples/sec; ...)' after its warm-up"
    }
    rm -rf "$work/run-$round"
    echo "$rate" >>"$work/towers.rates"
    report towers "$rate"

    measure "$peer_name" "$python" -B "${peer[@]}" --batch "$batch" --threads "$OMP_NUM_THREADS" --steps "$steps" \
        --json "${peer_options[@]}"
    rate=$(sed -nE 's|.*"examples_per_second": ([0-9.]+).*|\1|p' "$work/$peer_name.log")
    blas=$(sed -nE 's|.*"blas": "([^"]*)".*|\1|p' "$work/$peer_name.log")
    echo "$rate" >>"$work/$peer_name.rates"
    report "$peer_name" "$rate"
done

a=$(median <"$work/towers.rates")
b=$(median <"$work/$peer_name.rates")
tail -n 1 "$work/$peer_name.log" | sed -E "s/.*(\"device\".*)\}/$peer_name: \1/"
printf 'medians: towers %.1f, %s %.1f examples/s; towers / %s = %.3f\n' "$a" "$peer_name" "$b" "$peer_name" "$(awk "BEGIN { print $a / $b }")"
if [[ $blas == */blas/libblas.so* ]]; then
    echo "warning: this PyTorch multiplies with the slow reference BLAS, so the comparison is unfair; apt-get install libopenblas0-openmp" >&2
fi
if ((disturbed)); then echo "warning: other programs were busy meanwhile; repeat on a quiet machine" >&2; fi
