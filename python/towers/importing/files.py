"""Writes files."""

import json
import os
import struct
import zlib

import numpy as np


def safetensors(tensors, metadata):
    """The bytes of a safetensors file."""
    header, begin = {"__metadata__": metadata}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(each, "<f4").tobytes()
                                                             for each in tensors.values())


def png(picture):
    """The bytes of a PNG file of bytes, [height, width, channels]: grey or red, green, blue."""
    height, width, channels = picture.shape
    lines = np.pad(picture.reshape(height, -1), ((0, 0), (1, 0)))  # each begins with its filter, none
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)),
             (b"IDAT", zlib.compress(lines.tobytes(), 1)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
                                          for kind, data in parts)


def write(path, data):
    """Writes a whole file or none. An OSError names `path`, or its folder if that is missing."""
    temporary = f"{path}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        missing = isinstance(error, FileNotFoundError)
        raise OSError(error.errno, error.strerror, (os.path.dirname(path) or ".") if missing else path) from None
