#!/usr/bin/env python3
"""compare_checkpoints.py A.safetensors B.safetensors: are all tensors the same bits?

The metadata is not compared. Prints one line a tensor that differs and exits with 3 if there is any.
"""
import json
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


def difference(a, b):
    if a[:2] != b[:2]:
        return f"{a[0]} {a[1]} and {b[0]} {b[1]}"
    if a[0] != "F32":
        return "other bits"
    pairs = list(zip(*(struct.unpack(f"<{len(t[2]) // 4}f", t[2]) for t in (a, b))))
    unlike = sum(x != y for x, y in pairs)
    largest = max(max(abs(x), abs(y)) for x, y in pairs)
    return f"{unlike} of {len(pairs)} values, by at most {max(abs(x - y) for x, y in pairs):.3g} of {largest:.3g}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    a, b = map(tensors, sys.argv[1:])
    unlike = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    for name in unlike:
        what = difference(a[name], b[name]) if name in a and name in b else "in one file only"
        print(f"{name}: {what}")
    sys.exit(3 if unlike else 0)
