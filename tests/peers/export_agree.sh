#!/bin/sh
# Compares exported models in onnxruntime and PyTorch with towers: export_agree.py says how.
#   export_agree.sh TOWERS DUMP_LOGITS [OPTION OF export_agree.py]...
# Uses the first of $TOWERS_PYTHON, python3 and /usr/bin/python3 that has onnx, onnxruntime, torch and safetensors. Prints
# SKIPPED and exits with 77 if none has.
set -u
towers=${1:?usage: export_agree.sh TOWERS DUMP_LOGITS [OPTION]...}
dump_logits=${2:?usage: export_agree.sh TOWERS DUMP_LOGITS [OPTION]...}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../../.cache/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
for python in "${TOWERS_PYTHON:-python3}" python3 /usr/bin/python3; do
    if "$python" -c 'import onnx, onnxruntime, safetensors, torch' 2>/dev/null; then
        exec "$python" "$here/export_agree.py" "$towers" "$dump_logits" "$@"
    fi
done
echo "SKIPPED: no Python here has onnx, onnxruntime and torch (python3 -m venv DIR; DIR/bin/pip install onnx" \
    "onnxruntime torch safetensors numpy; TOWERS_PYTHON=DIR/bin/python3)"
exit 77
