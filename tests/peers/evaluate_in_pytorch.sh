#!/bin/sh
# Trains a little, then evaluates the checkpoint with `towers eval` and with docs/examples/evaluate_in_pytorch.py. Fails
# if the two disagree, because then the documents describe the checkpoint's tensors wrongly. Also fails if docs/runs.md
# shows another version of that script.
#   evaluate_in_pytorch.sh TOWERS
# Uses the first of $TOWERS_PYTHON, python3 and /usr/bin/python3 that has PyTorch and safetensors. Prints SKIPPED and exits
# with 77 if none has.
set -u
towers=${1:?usage: evaluate_in_pytorch.sh TOWERS}
root=$(cd "$(dirname "$0")/../.." && pwd)
example=$root/docs/examples/evaluate_in_pytorch.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$1"
    exit 1
}

sed -n '/^```python$/,/^```$/p' "$root/docs/runs.md" | sed '1d;$d' >"$work/shown.py"
diff -u "$example" "$work/shown.py" || fail "docs/runs.md shows another script than $example"

export PYTHONPATH="$root/.cache/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
python=
for candidate in "${TOWERS_PYTHON:-python3}" python3 /usr/bin/python3; do
    if "$candidate" -c 'import safetensors.torch' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "SKIPPED: no Python here has PyTorch and safetensors (python3 -m venv DIR; DIR/bin/pip install torch" \
        "safetensors; TOWERS_PYTHON=DIR/bin/python3)"
    exit 77
fi

"$towers" data shapes "$work/shapes" || exit 1
train() { "$towers" train --data "$work/shapes" --towers cpu --batch 32 --progress log "$@" >>"$work/train.log" || exit 1; }
# After so few steps the network still makes many mistakes, and averages and variables differ, so an error in the
# example changes the count.
train --steps 100 --lr 0.05 --run "$work/trained"
# LRN hardly affects a network after so few steps, but it does affect large activations.
"$python" - "$work/trained/model.ckpt-100.safetensors" "$work/large.safetensors" <<'P' || exit 1
import sys
from safetensors.torch import load_file, save_file
variables = load_file(sys.argv[1])
variables["conv1/weights"] *= 30
save_file(variables, sys.argv[2])
P
train --init "$work/large.safetensors" --steps 1 --lr 0 --run "$work/large"

# Each program prints "C of N examples, cross entropy X".
figures() { sed -nE 's/^([0-9]+) of ([0-9]+) examples, cross entropy ([0-9.]+).*/\1 \2 \3/p' "$1"; }
compare() { # RUN STEP
    "$towers" eval --run "$work/$1" >"$work/towers.log" || exit 1
    "$python" "$example" "$work/$1/model.ckpt-$2.safetensors" "$work/shapes" >"$work/pytorch.log" || exit 1
    cat "$work/towers.log" "$work/pytorch.log"
    echo "$(figures "$work/towers.log") $(figures "$work/pytorch.log")" | awk '
        function distance(a, b) { return a < b ? b - a : a - b }
        {
            if (NF != 6 || $2 != $5) { print "not the same examples"; exit 1 }
            # If the two best classes of an image differ by rounding only, either may win. The last digit is rounded.
            if (distance($1, $4) > 1 || distance($3, $6) > 0.0011) { print "towers and PyTorch disagree"; exit 1 }
            print "towers and PyTorch agree"
        }' || exit 1
}
compare trained 100
compare large 1

# The README's lines, with the file that they name.
sed -n '/^```python$/,/^```$/p' "$root/README.md" | sed '1d;$d' >"$work/readme.py"
cp "$work/trained/model.ckpt-100.safetensors" "$work/model.ckpt-2000.safetensors"
shown=$(cd "$work" && "$python" readme.py) || fail "the README's example does not run"
echo "$shown"
[ "$shown" = "cifar10-tutorial after step 100
torch.Size([1, 64, 24, 24]) torch.Size([1, 192])" ] || fail "the README's example prints something else"
