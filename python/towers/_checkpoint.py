"""Checkpoints: safetensors files as dicts of numpy arrays."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Union

from ._program import Error

if TYPE_CHECKING:
    import numpy

#: numpy's names of the types in safetensors files, little-endian; BF16 has none and becomes float32.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
          "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}
_LARGEST_HEADER = 100_000_000


class Checkpoint(Dict[str, Any]):
    """A dict from each variable's name to its numpy array, with the checkpoint's `metadata` and `path`."""

    def __init__(self, arrays: Mapping[str, "numpy.ndarray"], metadata: Mapping[str, str], path: Path) -> None:
        super().__init__(arrays)
        self.metadata = dict(metadata)
        self.path = path

    @property
    def step(self) -> Optional[int]:
        """The number of updates that the training had done; None if the file says nothing of one. Raises Error if it
        says no number."""
        step = self.metadata.get("step")
        if step is not None and not re.fullmatch("[0-9]{1,20}", step):
            raise Error(f"{self.path}: its metadata has no number 'step', but {step[:40]!r}; it is not a checkpoint of towers")
        return None if step is None else int(step)

    def averages(self) -> Dict[str, "numpy.ndarray"]:
        """The same, with moving averages in place of the variables that have some: what `eval` measures."""
        end = "/ExponentialMovingAverage"
        return {name: self.get(name + end, array) for name, array in self.items() if not name.endswith(end)}

    def __repr__(self) -> str:
        return f"<Checkpoint {self.path}: {len(self)} arrays>"


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise Error("checkpoints as arrays need numpy; install it with: pip install numpy") from error
    return numpy


def load(path: "Union[str, os.PathLike[str]]") -> Checkpoint:
    """Reads a safetensors file. Raises Error if it is damaged, OSError if it cannot be read."""
    np = _numpy()

    def damaged(what: str) -> Error:
        return Error(f"{os.fspath(path)} is no sound safetensors file: {what}")

    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8:
        raise damaged(f"it has {len(data)} bytes")
    size = int.from_bytes(data[:8], "little")
    if size > _LARGEST_HEADER or size > len(data) - 8:
        raise damaged(f"its header should have {size} bytes")
    try:
        header = json.loads(data[8:8 + size].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged("its header is no JSON") from error
    if not isinstance(header, dict):
        raise damaged("its header is no JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for each in metadata.values()):
        raise damaged("its metadata are no texts")
    begin = 8 + size
    arrays: Dict[str, Any] = {}
    for name, entry in header.items():
        try:
            kind, shape = entry["dtype"], entry["shape"]
            first, last = entry["data_offsets"]
            if not isinstance(shape, list) or not all(type(each) is int for each in [*shape, first, last]):
                raise TypeError
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(f"its entry of '{name}' is not a tensor's") from error
        if not isinstance(kind, str) or kind not in _TYPES:
            raise damaged(f"'{name}' has the type {kind!r}")
        dtype, count = np.dtype(_TYPES[kind]), 1
        for each in shape:
            count *= each
        if not 0 <= first <= last <= len(data) - begin or min(shape, default=1) < 0 or \
                last - first != count * dtype.itemsize:
            raise damaged(f"'{name}' lies outside of it, or its size is wrong")
        try:
            array = np.frombuffer(data, dtype, count, begin + first).reshape(shape)
        except ValueError as error:  # numpy's limits
            raise damaged(f"'{name}' has the shape {shape}") from error
        arrays[name] = (array.astype("<u4") << 16).view("<f4") if kind == "BF16" else array.copy()
    return Checkpoint(arrays, metadata, Path(path))


def save(path: "Union[str, os.PathLike[str]]", arrays: Mapping[str, Any],
         metadata: Optional[Mapping[str, str]] = None) -> None:
    """Writes arrays as a safetensors file, which `run(init=path)` can start from. Without `metadata` it takes those
    of a Checkpoint. Arrays of other types than safetensors has raise a TypeError."""
    np = _numpy()
    names = {np.dtype(what): kind for kind, what in _TYPES.items() if kind not in ("BF16", "BOOL")}
    names[np.dtype(bool)] = "BOOL"
    if metadata is None:
        metadata = getattr(arrays, "metadata", {})
    # The checksum is of other bytes, and the program refuses a file where it is wrong.
    kept = {key: value for key, value in metadata.items() if key != "tensors_checksum"}
    header: Dict[str, Any] = {"__metadata__": kept} if kept else {}
    blocks = []
    offset = 0
    for name, value in sorted(arrays.items()):
        array = np.asarray(value)
        if array.dtype.newbyteorder("<") not in names:
            raise TypeError(f"'{name}' has the type {array.dtype}, which safetensors does not have")
        kind = names[array.dtype.newbyteorder("<")]
        block = array.astype(_TYPES[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + len(block)]}
        offset += len(block)
        blocks.append(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for block in blocks:
            file.write(block)
