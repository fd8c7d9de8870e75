"""Writes a recipe's text: the network, how images become its input, and the training."""

import json
import math

import numpy as np

from .errors import NotExpressible

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

    def prepared(self, pictures):
        """The numbers that follow from bytes, [..., channels]."""
        return ((pictures / 255 - self.mean) / self.deviation).astype(np.float32)

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


def quoted(text):
    return json.dumps(text, ensure_ascii=False)


def toml(value):
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) and "." in f"{value:.9g}" else repr(float(f"{value:.9g}"))
    return repr(int(value))


def text(network, *, description="", weights=None, smoothing=0.0, footer, first=0):
    """The recipe. weights: of the heads; footer: the tables after the losses; first: the head with which it is evaluated."""
    lines = [f"description = {quoted(description)}", ""] if description else []
    lines += ["[input]", f"shape = {toml(network.input_shape)}", f"classes = {network.classes}", "", "[network]", "layers = ["]
    before = "images"
    for name, kind, inputs, attributes in network.layers:
        entry = {"name": name, "kind": kind}
        if inputs != [before]:
            entry |= {"inputs": inputs} if len(inputs) > 1 else {"input": inputs[0]}
        entry |= attributes
        lines.append("  { " + ", ".join(f"{key} = {toml(each)}" for key, each in entry.items()) + " },")
        before = name
    lines += ["]", ""]
    heads = network.heads
    weights = list(weights) if weights is not None else [1.0] + [0.3] * (len(heads) - 1)
    if len(weights) != len(heads):
        raise NotExpressible(f"has {len(heads)} outputs, not {len(weights)}")
    if len(heads) > 1 or smoothing or heads[0].layer != before or heads[0].scale != 1:
        for head, weight in sorted(zip(heads, weights), key=lambda each: each[0] is not heads[first]):
            lines += ["[[loss]]", f"logits = {toml(head.layer)}", f"weight = {toml(float(weight))}",
                      f"smoothing = {toml(float(smoothing))}", f"logit_scale = {toml(float(head.scale))}", ""]
    return "\n".join(lines) + "\n" + footer
