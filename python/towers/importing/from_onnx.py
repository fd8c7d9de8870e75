"""Reads an ONNX file as a recipe's network."""

import dataclasses
import math

import numpy as np
import onnx

from . import elementwise, onnx_images
from .errors import NotExpressible
from .network import Network
from .onnx_constants import BATCH, refuse
from .onnx_file import OnnxFile
from .onnx_graph import Ended, Graph, Padded, Rows
from .onnx_images import Images, OfImage, number
from .value import Value


NEVER_NEGATIVE = ("relu", "relu6", "sigmoid", "softplus")  # layers that give no numbers below zero


class Translation(Graph):
    # --- Layers with weights

    def weights(self, node, what, axes):
        if not isinstance(what, np.ndarray) or what.dtype.kind not in "fiu" or what.ndim != axes:
            raise NotExpressible(f"{node}: its weights are no constant of {axes} axes")
        if not what.size:
            raise NotExpressible(f"{node}: its weights are empty")
        return what.astype(np.float32)

    def vector(self, node, what, size=None):
        if what is None:
            return None
        if not isinstance(what, np.ndarray) or what.dtype.kind not in "fiu" or (size is not None and what.size not in (1, size)):
            raise NotExpressible(f"{node}: one of its inputs is no constant of {size} numbers")
        return np.broadcast_to(what.reshape(-1).astype(np.float32), (size,)) if size is not None else what.reshape(-1)

    def pads(self, node, shape, window, strides, dilations):
        """top, bottom, left, right"""
        kind = node.attributes.get("auto_pad", "NOTSET")
        if kind == "VALID":
            return [0] * 4
        if kind in ("SAME_UPPER", "SAME_LOWER"):
            pads = []
            for i in (0, 1):
                out = -(-shape[i] // strides[i])
                total = max(0, (out - 1) * strides[i] + dilations[i] * (window[i] - 1) + 1 - shape[i])
                before = total // 2 if kind == "SAME_UPPER" else total - total // 2
                pads += [before, total - before]
            return pads
        if kind != "NOTSET":
            raise NotExpressible(f"{node}: auto_pad '{kind}' is not known")
        pads = [int(each) for each in node.attributes.get("pads", [0] * 4)]
        if len(pads) != 4:
            raise NotExpressible(f"{node} has {len(pads)} pads; 2-d layers have 4")
        top, left, bottom, right = pads
        return [top, bottom, left, right]

    def pair(self, node, key, otherwise):
        pair = [int(each) for each in node.attributes.get(key, otherwise)]
        if len(pair) != 2 or not all(1 <= each < 1 << 20 for each in pair):
            raise NotExpressible(f"{node}: {key} {pair[:4]}; two numbers above 0 are possible")
        return pair

    def run_Conv(self, node, what, weight, bias=None):
        pads = [0] * 4
        if isinstance(what, Padded):
            what, pads = what.value, what.pads
        value, weight = self.value(what, node), self.weights(node, weight, 4)
        window = list(weight.shape[2:])
        strides, dilations = self.pair(node, "strides", [1, 1]), self.pair(node, "dilations", [1, 1])
        if self.pair(node, "kernel_shape", window) != window:
            raise NotExpressible(f"{node}: its kernel_shape is not that of its weights, {window}")
        padded = [side + pads[2 * i] + pads[2 * i + 1] for i, side in enumerate(value.shape[:2])]
        own = self.pads(node, padded, window, strides, dilations)
        groups = int(node.attributes.get("group", 1))
        if groups < 1:
            raise NotExpressible(f"{node}: {groups} groups")
        out = self.network.conv(self.name_of(node, node.inputs[1]), value, weight, self.vector(node, bias, weight.shape[0]),
                                strides=strides, pads=[a + b for a, b in zip(pads, own)], dilations=dilations, groups=groups)
        if bias is None:
            self.unbiased[out.layer] = []
        return out

    def run_Pad(self, node, what, pads=None, padding=None, axes=None):
        mode, pads = node.attributes.get("mode", "constant"), pads if pads is not None else node.attributes.get("pads")
        if mode != "constant" or (padding is not None and number(padding) != 0) or axes is not None or pads is None:
            raise NotExpressible(f"{node}: recipes pad with zeros on all sides of an image")
        pads, value = [int(each) for each in pads], self.value(what, node)
        rows, columns, channels = (1, 2, 3) if value.last else (2, 3, 1)
        if len(pads) != 8 or any(pads[i] for i in (0, channels, 4, 4 + channels)) or min(pads) < 0:
            raise NotExpressible(f"{node} pads {pads}; recipes pad height and width")
        return Padded(value, [pads[rows], pads[4 + rows], pads[columns], pads[4 + columns]]) if any(pads) else what

    def run_Gemm(self, node, a, b, c=None):
        attributes = node.attributes
        if attributes.get("transA", 0):
            raise NotExpressible(f"{node} turns the images around (transA)")
        weight = self.weights(node, b, 2) * np.float32(attributes.get("alpha", 1.0))
        if not attributes.get("transB", 0):
            weight = weight.T
        bias = self.vector(node, c, weight.shape[0])
        if bias is not None:
            bias = bias * np.float32(attributes.get("beta", 1.0))
        return self.dense(node, a, weight, bias)

    def run_MatMul(self, node, a, b):
        return self.dense(node, a, self.weights(node, b, 2).T, None)

    def dense(self, node, what, weight, bias):
        value = what.value if isinstance(what, Rows) else self.value(what, node)
        out = self.network.dense(self.name_of(node, node.inputs[1]), value, weight, bias)
        if bias is None:
            self.unbiased[out.layer] = []
        return Rows(out) if isinstance(what, Rows) else out

    # --- Normalizations

    def run_BatchNormalization(self, node, what, gamma, beta, mean, variance):
        value = self.value(what, node)
        value = self.network.as_vector(value)
        gamma, beta, mean, variance = (self.vector(node, each, value.channels) for each in (gamma, beta, mean, variance))
        if (variance < 0).any():
            raise NotExpressible(f"{node}: a variance is below 0")
        decay = float(node.attributes.get("momentum", 0.9))
        name = self.name_of(node, node.inputs[1])
        for end in ("/gamma", ".gamma"):
            name = node.inputs[1][:-len(end)] if node.inputs[1].endswith(end) and len(node.inputs[1]) > len(end) else name
        return self.network.batch_norm(name, value, gamma, beta, mean, variance,
                                       epsilon=float(node.attributes.get("epsilon", 1e-5)),
                                       decay=min(max(decay, 0.0), 0.9999999))

    def run_LayerNormalization(self, node, what, gamma, beta=None):
        value = self.value(what, node)
        axis = int(node.attributes.get("axis", -1))
        axes = [value.channels] if axis in (-1, value.rank - 1) else None
        if axes is None:
            raise NotExpressible(f"{node} normalizes over several axes; recipes' layer_norm takes each pixel's channels")
        name = self.name_of(node, node.inputs[1])
        if node.inputs[1].endswith("/gamma"):
            name = node.inputs[1][:-len("/gamma")]
        elements = math.prod(value.shape) if value.rank == 2 else value.channels
        return self.network.layer_norm(name, value, self.vector(node, gamma, elements), self.vector(node, beta, elements),
                                       axes=[elements], epsilon=float(node.attributes.get("epsilon", 1e-5)))

    def run_LRN(self, node, what):
        attributes = node.attributes
        return self.network.lrn(self.name_of(node), self.value(what, node), int(attributes["size"]),
                                float(attributes.get("alpha", 1e-4)), float(attributes.get("beta", 0.75)),
                                float(attributes.get("bias", 1.0)))

    # --- Pooling

    def pool(self, node, kind, what, **more):
        zeros = [0] * 4
        if isinstance(what, Padded):
            what, zeros = what.value, what.pads
            if kind == "max_pool" and self.network.kind_of(what) not in NEVER_NEGATIVE or not more.get("count_padding", True):
                raise NotExpressible(f"{node} takes the zeros of a Pad for pixels; recipes' pools do not")
        value = self.value(what, node)
        if value.rank != 4:
            raise NotExpressible(f"{node} pools what is no image")
        window = self.pair(node, "kernel_shape", [])
        strides = self.pair(node, "strides", [1, 1])
        if self.pair(node, "dilations", [1, 1]) != [1, 1]:
            raise NotExpressible(f"{node} has dilations; a recipe's pools have none")
        padded = [side + zeros[2 * i] + zeros[2 * i + 1] for i, side in enumerate(value.shape[:2])]
        own = self.pads(node, padded, window, strides, [1, 1])
        return self.network.pool(kind, self.name_of(node), value, window, strides,
                                 [a + b for a, b in zip(zeros, own)],
                                 bool(node.attributes.get("ceil_mode", 0)), **more)

    def run_MaxPool(self, node, what):
        return self.pool(node, "max_pool", what)

    def run_AveragePool(self, node, what):
        return self.pool(node, "average_pool", what, count_padding=bool(node.attributes.get("count_include_pad", 0)))

    def run_GlobalAveragePool(self, node, what):
        return self.network.global_average_pool(self.name_of(node), self.value(what, node))

    def run_GlobalMaxPool(self, node, what):
        return self.network.adaptive_pool("max_pool", self.name_of(node), self.value(what, node), [1, 1])

    def run_ReduceMean(self, node, what, axes=None):
        axes = axes if axes is not None else node.attributes.get("axes", [])
        prepared = onnx_images.mean(node, what, axes) if isinstance(what, (Images, OfImage)) else None
        if prepared is not None:
            return prepared
        value = self.value(what, node)
        axes = sorted(int(each) % value.rank for each in axes)
        if value.rank != 4 or axes != ([1, 2] if value.last else [2, 3]):
            raise NotExpressible(f"{node} is a mean over axes {axes[:4]}; recipes have that of an image's pixels")
        return self.network.global_average_pool(self.name_of(node), value, bool(node.attributes.get("keepdims", 1)))

    # --- Elementwise

    def run_Sum(self, node, *given):
        values = [self.value(each, node) for each in given]
        return values[0] if len(values) == 1 else self.network.add(self.name_of(node), values)

    def run_Sqrt(self, node, what):
        if isinstance(what, OfImage) and what.step == "variance":
            return OfImage("deviation", what.images)
        return self.elementwise(node, np.sqrt, [what])

    def run_Clip(self, node, what, low=None, high=None):
        low = node.attributes.get("min") if low is None else number(low)
        high = node.attributes.get("max") if high is None else number(high)
        return self.elementwise(node, lambda x: np.clip(x, -np.inf if low is None else low, np.inf if high is None else high), [what])

    def run_HardSigmoid(self, node, what):
        alpha, beta = node.attributes.get("alpha", 0.2), node.attributes.get("beta", 0.5)
        return self.elementwise(node, lambda x: np.clip(alpha * x + beta, 0, 1), [what])

    def run_LeakyRelu(self, node, what):
        slope = node.attributes.get("alpha", 0.01)
        return self.elementwise(node, lambda x: np.where(x < 0, slope * x, x), [what])

    def run_Elu(self, node, what):
        alpha = node.attributes.get("alpha", 1.0)
        return self.elementwise(node, lambda x: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x), [what])

    def run_Gelu(self, node, what):
        kind = "gelu by tanh" if node.attributes.get("approximate", "none") == "tanh" else "gelu"
        return self.elementwise(node, elementwise.ACTIVATIONS[kind][0], [what])

    def run_Swish(self, node, what):
        alpha = node.attributes.get("alpha", 1.0)
        return self.elementwise(node, lambda x: x * elementwise.sigmoid(alpha * x), [what])

    def run_Identity(self, node, what):
        return what

    def run_Dropout(self, node, what, ratio=None, training=None):
        rate = number(ratio) if ratio is not None else node.attributes.get("ratio", 0.5)
        return self.network.dropout(self.name_of(node), self.value(what, node), 0.5 if rate is None else float(rate))

    def softmax(self, node, what):
        self.network.note("the softmax at the end is left out: a recipe's loss has it")
        return Ended(what, "softmax" if node.kind == "Softmax" else "log_softmax")

    def run_Softmax(self, node, what):
        return self.softmax(node, what)

    def run_LogSoftmax(self, node, what):
        return self.softmax(node, what)

    # --- Shapes

    def run_Concat(self, node, *given):
        values = [self.value(each, node) for each in given]
        axis = int(node.attributes["axis"]) % values[0].rank
        if axis != (1 if values[0].rank == 2 or not values[0].last else 3):
            raise NotExpressible(f"{node} joins along axis {axis}; recipes join channels")
        return self.network.concatenate(self.name_of(node), values)

    def run_Flatten(self, node, what):
        value = self.value(what, node)
        if int(node.attributes.get("axis", 1)) % value.rank != 1:
            raise NotExpressible(f"{node} flattens from axis {node.attributes['axis']}; recipes flatten whole images")
        return value.flat()

    def run_Reshape(self, node, what, sizes=None):
        value = what.value if isinstance(what, Rows) else self.value(what, node)
        sizes = sizes if sizes is not None else node.attributes.get("shape")
        if not isinstance(sizes, (np.ndarray, list)):
            raise NotExpressible(f"{node} takes a shape that is not known beforehand")
        own = self.shape_of(value)
        sizes = [own[i] if int(each) == 0 and i < len(own) and not node.attributes.get("allowzero", 0) else int(each)
                 for i, each in enumerate(sizes)]
        # A file whose batch is fixed has that number in its shapes.
        sizes = [-1 if each == BATCH or (i == 0 and each > 0) else each for i, each in enumerate(sizes)]
        if len(sizes) == 2 and value.last and value.pixels > 1 and sizes == [-1, value.channels]:
            return Rows(value)
        if len(sizes) == 2 and sizes[1] in (-1, math.prod(value.shape)) and not isinstance(what, Rows):
            return value.flat()
        if len(sizes) == 4 and value.pixels == 1 and value.order is None and all(
                each in (-1, mine) for each, mine in zip(sizes[1:], (value.channels, 1, 1))):
            return dataclasses.replace(value, rank=4, last=False)
        if len(sizes) == len(own) and all(each in (-1, mine) for each, mine in zip(sizes[1:], own[1:])):
            return value
        raise NotExpressible(f"{node} gives the shape {sizes[:6]}; recipes flatten images, and nothing else")

    def shape_of(self, value):
        height, width, channels = value.shape
        if value.rank == 2:
            return [BATCH, height * width * channels]
        return [BATCH, height, width, channels] if value.last else [BATCH, channels, height, width]

    def run_Cast(self, node, what):
        return onnx_images.cast(node, what) if isinstance(what, Images) else what

    def run_Slice(self, node, what, starts=None, ends=None, axes=None, steps=None):
        if not isinstance(what, Images):
            raise NotExpressible(f"{node} takes a part of a layer's output; layers of a recipe take whole ones")
        return onnx_images.crop(node, what, starts, ends, axes, steps)

    def run_Resize(self, node, what, roi=None, scales=None, sizes=None):
        return onnx_images.resize(node, what, sizes) if isinstance(what, Images) else refuse(node)

    def run_Shape(self, node, what):
        shape = what.shape if isinstance(what, Images) else self.shape_of(self.value(what, node))
        return np.array(shape[node.attributes.get("start", 0):node.attributes.get("end", len(shape))], np.int64)

    def run_Squeeze(self, node, what, axes=None):
        value = self.value(what, node)
        axes = sorted(int(each) % value.rank for each in (axes if axes is not None else node.attributes.get("axes", [2, 3])))
        if value.rank != 4 or value.pixels != 1 or axes != ([1, 2] if value.last else [2, 3]):
            raise NotExpressible(f"{node} takes away the axes {axes[:4]}; height and width of 1 are possible")
        return dataclasses.replace(value, rank=2, last=False)

    def run_Unsqueeze(self, node, what, axes=None):
        value = self.value(what, node)
        axes = sorted(int(each) % 4 for each in (axes if axes is not None else node.attributes.get("axes", [])))
        if value.rank != 2 or axes not in ([2, 3], [1, 2]) or value.order is not None:
            raise NotExpressible(f"{node} adds the axes {axes[:4]}; height and width of a vector are possible")
        return dataclasses.replace(self.network.as_vector(value), rank=4, last=axes == [1, 2])

    def run_Transpose(self, node, what):
        axes = list(node.attributes.get("perm", []))
        if isinstance(what, Padded):
            return Padded(self.moved(node, what.value, axes), what.pads)
        return self.moved(node, what if isinstance(what, Images) else self.value(what, node), axes)

    def moved(self, node, what, axes):
        """A layer's output, or the images, with its axes in another order."""
        image = isinstance(what, Images) or what.rank == 4
        if image and axes == ([0, 3, 1, 2] if what.last else [0, 2, 3, 1]):
            return dataclasses.replace(what, last=not what.last)
        if axes == list(range(4 if image else what.rank)):
            return what
        if isinstance(what, Value) and image and what.pixels == 1 and sorted(axes) == [0, 1, 2, 3] and axes[0] == 0:
            channels = axes.index(3 if what.last else 1)
            if channels != 2:
                return dataclasses.replace(what, last=channels == 3)
        raise NotExpressible(f"{node} moves the axes to {axes[:6]}; only channels to the end and back is possible")


@dataclasses.dataclass
class Found:
    """What an ONNX file has. normalizes: scale and shift of the images' numbers before the network; takes_bytes: "known",
    "guessed" or None; boxes: kind of pipeline, and its boxes for training and evaluation; stored: height, width and channels
    of the images; outputs: computes the file's outputs of these, [images, height, width, channels]."""

    network: Network
    normalizes: tuple
    takes_bytes: object
    boxes: tuple
    stored: tuple
    outputs: object


def network_of(path, shape, group=32):
    translation = Translation(OnnxFile(path), shape, group)
    network, images = translation.network, translation.takes_images
    scale, shift = np.reshape(images.scale, -1), np.reshape(images.shift, -1)
    takes_bytes = "known" if translation.element == onnx.TensorProto.UINT8 else (
        "guessed" if (np.abs(scale) > 0).all() and (1 / np.abs(scale) >= 2).all() else None)
    return Found(network, (scale, shift), takes_bytes, onnx_images.boxes(images, network), translation.stored,
                 lambda pictures: translation.file.outputs_of(
                     pictures if translation.last else pictures.transpose(0, 3, 1, 2)))
