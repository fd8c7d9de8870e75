#!/bin/sh
# Imports models from PyTorch and ONNX: importing.py says how.
#   importing.sh TOWERS DUMP_STEP [OPTION OF importing.py]...
# Uses the first of $TOWERS_PYTHON, python3 and /usr/bin/python3 that has torchvision, onnx and safetensors. Prints SKIPPED
# and exits with 77 if none has.
set -u
towers=${1:?usage: importing.sh TOWERS DUMP_STEP [OPTION]...} dump_step=${2:?usage: importing.sh TOWERS DUMP_STEP [OPTION]...}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../../python:$here/../../.cache/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
export TOWERS_PROGRAM="$towers"
for python in "${TOWERS_PYTHON:-python3}" python3 /usr/bin/python3; do
    if "$python" -c 'import torchvision, onnx, safetensors.numpy' 2>/dev/null; then
        exec "$python" "$here/importing.py" "$towers" "$dump_step" "$@"
    fi
done
echo "SKIPPED: no Python here has torchvision, onnx and safetensors (python3 -m venv DIR; DIR/bin/pip install torch" \
    "torchvision onnx safetensors; TOWERS_PYTHON=DIR/bin/python3)"
exit 77
