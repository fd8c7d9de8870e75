"""Compares what a model and the recipe made of it compute of random pictures."""

import json
import os
import tempfile

import numpy as np

from . import files
from .. import _program
from .errors import CannotCheck, Differs, NotExpressible

MOST_OFF = 1e-4  # of the largest logit


def pictures_of(shape):
    """Random bytes, [pictures, height, width, channels]: squares of one, four and sixteen pixels."""
    random, (height, width, channels) = np.random.default_rng(1), shape
    pictures = [random.integers(0, 256, (-(-height // side), -(-width // side), channels), np.uint8)
                .repeat(side, 0).repeat(side, 1)[:height, :width] for side in (1, 4, 16)]
    return np.stack(pictures)


def softmax(logits):
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


ENDINGS = {"": lambda logits: logits, "softmax": softmax, "log_softmax": lambda logits: np.log(softmax(logits))}


def logits_of(recipe, variables, pictures):
    """What the program computes with these files."""
    try:
        text = _program.call("predict", variables, *pictures, recipe=recipe, towers="cpu", json=True, scores=True)
    except _program.Error as error:
        text = str(error).replace(os.path.dirname(recipe) + os.sep, "")
        raise NotExpressible(f"towers cannot compute with the recipe: {text}") from error
    except OSError as error:
        raise CannotCheck(f"{_program.program()}: {error.strerror}") from error
    return np.array([json.loads(line)["scores"] for line in text.splitlines()])


def off_by(imported, outputs):
    """The largest difference of any output, in parts of the output's largest number. `outputs`: computes the model's of
    pictures. Raises Differs if it is too large, NotExpressible if one of both cannot compute, CannotCheck if it cannot be
    known."""
    try:
        _program.program()
    except _program.Error as error:
        raise CannotCheck(str(error)) from error
    pictures, most = pictures_of(imported.stored), 0.0
    theirs = outputs(pictures)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        files.write(path("net.safetensors"), imported.data())
        for i, picture in enumerate(pictures):
            files.write(path(f"{i}.png"), files.png(picture))
        for i, head in enumerate(imported.network.heads):
            expected = np.asarray(theirs[head.output], np.float64).reshape(len(pictures), -1)
            if not np.isfinite(expected).all():
                raise CannotCheck(f"the model's own output '{head.layer}' of random pictures is not finite")
            files.write(path("net.toml"), imported.text_of(i).encode())
            logits = logits_of(path("net.toml"), path("net.safetensors"), [path(f"{i}.png") for i in range(len(pictures))])
            found = ENDINGS[head.ending](logits)
            if found.shape != expected.shape:
                raise Differs(f"'{head.layer}' gives {found.shape[1]} numbers, and the model's output {expected.shape[1]}")
            off = np.abs(found - expected).max() / max(np.abs(expected).max(), np.finfo(np.float32).tiny)
            if not off <= MOST_OFF:
                raise Differs(f"'{head.layer}' of the recipe is off by {off:.1e} of the largest number of the model's output; "
                              f"{MOST_OFF:g} is allowed. The import is wrong, or the model computes with random numbers or less "
                              "than float32's digits; --no-check writes it anyway")
            most = max(most, off)
    return most
