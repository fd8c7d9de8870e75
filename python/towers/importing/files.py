"""Writes a recipe and its variables."""

import json
import os

import numpy as np

from .recipe import NotExpressible, toml

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


class Pipeline:
    """How a model's inputs follow from bytes: (byte / 255 - mean) / deviation, by channel."""

    def __init__(self, mean, deviation, channels):
        self.mean, self.deviation = (self.of_channels(each, channels) for each in (mean, deviation))
        self.kind, self.training, self.evaluation = None, "", ""  # what happens to images before that

    @staticmethod
    def of_channels(numbers, channels):
        numbers = np.asarray(numbers, np.float64).reshape(-1)
        if numbers.size not in (1, channels):
            raise NotExpressible(f"{numbers.size} numbers for the normalization of {channels} channels; give one, or one each")
        return np.broadcast_to(numbers, (channels,)).copy()

    def then(self, scale, shift):
        """The model first computes scale * x + shift itself."""
        scale, shift = (self.of_channels(each, self.mean.size) for each in (scale, shift))
        if not (np.isfinite(scale).all() and np.isfinite(shift).all() and (scale > 0).all()):
            raise NotExpressible("normalizes its images by numbers that are not above zero and finite")
        return Pipeline(self.mean - shift * self.deviation / scale, self.deviation / scale, self.mean.size)

    def values(self):
        one = lambda each: [float(f"{number:.7g}") for number in (each[:1] if np.ptp(each) == 0 else each)]
        if np.allclose(self.mean, 0, atol=1e-7) and np.allclose(self.deviation, 1 / 255, rtol=1e-6):
            return 'values = "bytes"\n'
        if np.allclose(self.mean, 0.5, rtol=1e-6) and np.allclose(self.deviation, 0.5, rtol=1e-6):
            return 'values = "signed_unit"\n'
        return f'values = "normalized"\nmean = {toml(one(self.mean))}\ndeviation = {toml(one(self.deviation))}\n'

    def text(self):
        """The recipe's tables, with images flipped in training."""
        if self.kind is not None:
            return f'[pipeline]\nkind = "{self.kind}"\n'
        evaluation = f"\n[pipeline.evaluate]\n{self.evaluation}" if self.evaluation else ""
        return f"[pipeline]\n{self.values()}\n[pipeline.train]\n{self.training}flip = true\n{evaluation}"


def footer(pipeline, batch):
    """The tables after the network: for fine-tuning."""
    return pipeline.text() + f"""
# For fine-tuning. From random weights (no --init, or an untrained model's) this learns slowly; AdamW with a learning rate
# of 0.001 to 0.002 learned faster: --set optimizer.kind=adamw --set optimizer.learning_rate=0.001
[optimizer]
kind = "momentum"
learning_rate = 0.01
weight_decay = 0.0001

[training]
batch = {batch}
steps = 1000
"""


def safetensors(tensors):
    """The bytes of a safetensors file."""
    header, begin = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(each, "<f4").tobytes()
                                                             for each in tensors.values())


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
