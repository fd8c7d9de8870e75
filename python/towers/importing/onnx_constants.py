"""Computes what in an ONNX file does not depend on the images."""

import math

import numpy as np
import onnx

from . import elementwise
from .errors import NotExpressible

BATCH = -(2**30)  # stands for the number of images where a file computes with shapes
MOST_NUMBERS = 2**28

UNARY = {
    "Relu": lambda x: np.maximum(x, 0), "Sigmoid": elementwise.sigmoid, "Tanh": np.tanh, "Erf": elementwise.erf,
    "Exp": np.exp, "Sqrt": np.sqrt, "Neg": np.negative, "Abs": np.abs, "Reciprocal": lambda x: 1 / x,
    "Softplus": lambda x: np.logaddexp(0, x), "Log": np.log,
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
}
BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Max": np.maximum,
          "Min": np.minimum}
HINTS = {"ConvTranspose": "recipes have no transposed convolutions", "Resize": "recipes resize images in their pipeline only",
         "InstanceNormalization": "BatchNormalization is possible", "GroupNormalization": "BatchNormalization is possible",
         "LSTM": "recipes have no recurrence", "GRU": "recipes have no recurrence", "If": "recipes have no branches",
         "Loop": "recipes have no loops", "QuantizeLinear": "import the file from before quantization",
         "DequantizeLinear": "import the file from before quantization", "QLinearConv": "import the file from before quantization"}


def refuse(node):
    raise NotExpressible(f"{node} has no layer in recipes; "
                         + HINTS.get(node.kind, "docs/importing.md lists what is possible"))


def fold(node, given):
    """The result of a node that does not depend on the images."""
    attributes, kind = node.attributes, node.kind
    arrays = [each for each in given if each is not None]
    if sum(each.size for each in arrays) > MOST_NUMBERS:
        raise NotExpressible(f"{node} has more numbers than can be computed with")
    if kind == "Constant":
        for key, make in (("value", np.asarray), ("value_float", np.float32), ("value_floats", np.float32),
                          ("value_int", np.int64), ("value_ints", np.int64)):
            if key in attributes:
                return np.asarray(attributes[key]) if make is np.asarray else np.asarray(attributes[key], make)
        raise NotExpressible(f"{node} has no number")
    if kind == "ConstantOfShape":
        shape = [int(each) for each in given[0]]
        if any(each < 0 for each in shape) or math.prod(shape) > MOST_NUMBERS:
            raise NotExpressible(f"{node} has the shape {shape[:6]}")
        return np.full(shape, np.reshape(attributes.get("value", np.float32(0)), -1)[0])
    if kind == "Shape":
        return np.array(given[0].shape, np.int64)
    if kind == "Identity":
        return given[0]
    if kind == "Cast":
        return given[0].astype(onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]))
    if kind == "Gather":
        return np.take(given[0], given[1].astype(np.int64), axis=attributes.get("axis", 0))
    if kind == "Concat":
        return np.concatenate([np.atleast_1d(each) for each in given], axis=attributes["axis"])
    if kind in ("Unsqueeze", "Squeeze"):
        axes = given[1] if len(given) > 1 else attributes.get("axes")
        if axes is None:
            return np.squeeze(given[0])
        axes = tuple(int(each) for each in np.atleast_1d(axes))
        return np.expand_dims(given[0], axes) if kind == "Unsqueeze" else np.squeeze(given[0], axes)
    if kind == "Transpose":
        return np.transpose(given[0], attributes.get("perm"))
    if kind == "Reshape":
        return given[0].reshape([int(each) for each in given[1]])
    if kind == "Slice":
        parts = [slice(None)] * given[0].ndim
        axes = given[3] if len(given) > 3 and given[3] is not None else range(len(given[1]))
        steps = given[4] if len(given) > 4 and given[4] is not None else [1] * len(given[1])
        for start, end, axis, step in zip(given[1], given[2], axes, steps):
            parts[int(axis)] = slice(int(start), int(end), int(step))
        return given[0][tuple(parts)]
    if kind == "ReduceProd":
        axes = given[1] if len(given) > 1 and given[1] is not None else attributes.get("axes")
        axes, keeps = None if axes is None else tuple(int(each) for each in axes), bool(attributes.get("keepdims", 1))
        # Several times the number of images is as unknown as that.
        unknown = (given[0] == BATCH).any(axis=axes, keepdims=keeps)
        return np.where(unknown, BATCH, np.where(given[0] == BATCH, 1, given[0]).prod(axis=axes, keepdims=keeps))
    if kind in BINARY and len(given) == 2:
        if math.prod(np.broadcast_shapes(given[0].shape, given[1].shape)) > MOST_NUMBERS:
            raise NotExpressible(f"{node} has more numbers than can be computed with")
        if any((each == BATCH).any() for each in given if each.dtype.kind == "i"):
            raise NotExpressible(f"{node} computes with the number of images")
        with np.errstate(all="ignore"):
            result = BINARY[kind](given[0], given[1])
        return result.astype(np.result_type(given[0].dtype)) if kind in ("Div", "Pow") else result
    if kind in UNARY and kind != "Erf":
        with np.errstate(all="ignore"):
            return UNARY[kind](given[0])
    refuse(node)
