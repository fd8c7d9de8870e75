#!/bin/sh
# Compares training steps of torchvision's networks, from the built-in recipes where there are such, with float64
# PyTorch's: torchvision_agree.py says how.
#   torchvision_agree.sh DUMP_STEP [OPTION OF torchvision_agree.py]...
# Uses the first of $TOWERS_PYTHON, python3 and /usr/bin/python3 that has torchvision and safetensors. Prints SKIPPED and
# exits with 77 if none has.
set -u
dump_step=${1:?usage: torchvision_agree.sh DUMP_STEP [OPTION]...}
shift
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../../python:$here/../../.cache/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
for python in "${TOWERS_PYTHON:-python3}" python3 /usr/bin/python3; do
    if "$python" -c 'import torchvision, safetensors.torch' 2>/dev/null; then
        exec "$python" "$here/torchvision_agree.py" "$dump_step" "$@"
    fi
done
echo "SKIPPED: no Python here has torchvision and safetensors (python3 -m venv DIR; DIR/bin/pip install torch" \
    "torchvision safetensors; TOWERS_PYTHON=DIR/bin/python3)"
exit 77
