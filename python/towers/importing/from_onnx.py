"""Reads an ONNX file as a recipe's network."""

import dataclasses
import math

import numpy as np
import onnx

from . import elementwise
from .elementwise import Function
from .onnx_file import OnnxFile
from .recipe import Network, NotExpressible, Value

BATCH = -(2**40)  # stands for the number of images where a file computes with shapes
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


@dataclasses.dataclass(frozen=True)
class Images:
    """The input, and what has been computed from it so far: scale * x + shift of a part of it."""

    size: tuple  # of the stored picture, height and width
    height: int
    width: int
    scale: object = 1.0
    shift: object = 0.0
    cropped: bool = False
    resized: bool = False
    standardized: bool = False


@dataclasses.dataclass(frozen=True)
class OfImage:
    """A step of standardizing each image: mean, centred, squares, variance, deviation, bounded."""

    step: str
    images: Images


class Padded:
    """A layer's output with zeros around it."""

    def __init__(self, value, pads):
        self.value, self.pads = value, pads


class Translation:
    def __init__(self, file, shape, group):
        self.file, self.normalizes, self.takes_images = file, None, None
        inputs = list(file.inputs.items())
        if len(inputs) != 1:
            raise NotExpressible(f"has {len(inputs)} inputs; a recipe's network takes images alone")
        self.input, (self.element, sizes) = inputs[0]
        self.uses = {}
        for node in file.nodes:
            for name in node.inputs:
                self.uses[name] = self.uses.get(name, 0) + 1
        stored = self.stored_shape(sizes, shape)
        # The network's own size is known once the file has cropped and resized its images.
        self.network = Network(stored, group)
        self.results = dict(file.constants)
        self.results[self.input] = Images(stored[:2], *stored[:2])
        self.unbiased = {}  # layers without biases, by name, with the file's name of their output
        for node in file.nodes:
            self.run(node)
        self.end()

    def stored_shape(self, sizes, shape):
        if len(sizes) != 4:
            raise NotExpressible(f"input '{self.input}' has {len(sizes)} axes; images are [batch, channels, height, width]")
        _, channels, height, width = sizes
        given = shape or (None, None, None)
        wanted = [own or other for own, other in zip((height, width, channels), given)]
        if None in wanted or 0 in wanted:
            raise NotExpressible(f"input '{self.input}' leaves the images' size open; give it with --shape")
        if shape and tuple(wanted) != tuple(shape):
            raise NotExpressible(f"takes images of {'x'.join(map(str, wanted))}, not {'x'.join(map(str, shape))}")
        if min(wanted) < 1 or max(wanted) > 1 << 16:
            raise NotExpressible(f"input '{self.input}' has the size {sizes}; an image's sides are 1 to {1 << 16}")
        return tuple(wanted)

    # --- Results of nodes

    def run(self, node):
        given = []
        for name in node.inputs:
            if name and name not in self.results:
                raise NotExpressible(f"{node} takes '{name}', which nothing before it gives")
            given.append(self.results[name] if name else None)
        for name in node.outputs:
            if name and name in self.results:
                raise NotExpressible(f"{node} gives '{name}', which something before it gives")
        try:
            result = self.result_of(node, given)
        except NotExpressible:
            raise
        except RecursionError:
            raise NotExpressible(f"{node} stands too deep in functions of functions") from None
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ArithmeticError) as error:
            raise NotExpressible(f"{node} is used as ONNX does not allow: {' '.join(str(error).split())[:120]}") from error
        if not node.outputs:
            raise NotExpressible(f"{node} gives nothing")
        self.results[node.outputs[0]] = result
        for name in node.outputs[1:]:
            if name and (self.uses.get(name) or name in self.file.outputs):
                raise NotExpressible(f"{node} has a second output, '{name}', that is used; recipes' layers have one")

    def result_of(self, node, given):
        if all(each is None or isinstance(each, np.ndarray) for each in given):
            return np.asarray(self.folded(node, given))
        method = getattr(self, "run_" + node.kind, None)
        if method is not None:
            return method(node, *given)
        if node.kind in UNARY:
            return self.elementwise(node, UNARY[node.kind], given[:1])
        if node.kind in BINARY:
            return self.binary(node, given)
        self.refuse(node)

    def refuse(self, node):
        raise NotExpressible(f"{node} has no layer in recipes; "
                             + HINTS.get(node.kind, "docs/importing.md lists what is possible"))

    def name_of(self, node, weights=None):
        """A layer's name: that of its weights, or of the node."""
        for name in [weights] if weights else []:
            for end in (".weight", "/weights", "/weight", "_weight", "/kernel", ".kernel"):
                if name.endswith(end) and len(name) > len(end):
                    return name[:-len(end)]
        parts = [part for part in node.name.split("/") if part]
        if len(parts) > 1 and parts[-1].rstrip("_0123456789") == node.kind and node.name[0] == "/":
            parts = parts[:-1]
        # PyTorch says layer1/layer1.0/layer1.0.conv1.
        parts = [part for i, part in enumerate(parts) if not any(each.startswith(part + ".") for each in parts[i + 1:i + 2])]
        return ".".join(parts) or node.kind

    def value(self, what, node):
        """A layer's output."""
        if isinstance(what, Value):
            return what
        if isinstance(what, Function):
            return self.materialize(what, node)
        if isinstance(what, Images):
            if self.takes_images not in (None, what):
                raise NotExpressible(f"{node} takes the images otherwise prepared than the layers before")
            if self.takes_images is None:
                self.takes_images = what
                channels = self.network.input_shape[2]
                self.network.input_shape = (what.height, what.width, channels)
                self.network.images = Value("images", self.network.input_shape)
            return self.network.images
        if isinstance(what, Padded):
            raise NotExpressible(f"{node} takes a Pad's output; recipes pad in convolutions and pools")
        if isinstance(what, OfImage):
            raise NotExpressible(f"{node} takes a statistic of the images; only their standardization is possible")
        raise NotExpressible(f"{node} takes numbers where a layer's output should be")

    # --- Functions of one number

    def materialize(self, function, node):
        """A layer that computes the function."""
        if function.made is None:
            function.made = self.layer_of(function, node)
        return function.made

    def layer_of(self, function, node):
        known, base = function.known(), function.base
        if known is not None:
            kind, attributes = known
            if kind == "identity":
                return base
            if kind == "affine":
                return self.scaled(function.name, base, attributes["scale"], attributes["shift"])
            return self.network.activation(kind, function.name, base, **attributes)
        # The last step alone, of layers that compute what comes before it
        operands = [self.materialize(each, node) if isinstance(each, Function) and each.apply is not None else each
                    for each in function.operands]
        values = [each.base if isinstance(each, Function) else each for each in operands if isinstance(each, (Function, Value))]
        if len(values) == 2 and len(operands) == 2 and function.apply in (np.add, np.multiply):
            return getattr(self.network, "add" if function.apply is np.add else "multiply")(function.name, values)
        if len(values) == 1:
            last = elementwise.apply(function.name, function.apply, *(
                elementwise.plain(each) if isinstance(each, Value) else each for each in operands))
            if last.known() is not None:
                return self.layer_of(last, node)
        raise NotExpressible(f"'{function.name}' computes a function that is no activation of recipes; they have "
                             "relu, relu6, leaky_relu, silu, sigmoid, hard_swish and gelu")

    def scaled(self, name, value, scale, shift):
        if value.layer == "images":
            raise NotExpressible(f"'{name}' changes the images after a layer has taken them")
        self.network.note("numbers for each channel become the weights of a depthwise convolution, and learn", f"'{name}'")
        return self.network.scale_and_shift(name, value, scale, None if np.all(np.equal(shift, 0)) else shift)

    def as_function(self, what, node):
        return what if isinstance(what, Function) else elementwise.plain(self.value(what, node))

    def elementwise(self, node, apply, operands):
        """operands: layers' outputs and numbers."""
        operands = [each if isinstance(each, (float, int)) else self.as_function(each, node) for each in operands]
        return elementwise.apply(self.name_of(node), apply, *operands)

    def number(self, what):
        """One number, or None."""
        if isinstance(what, np.ndarray) and what.size == 1 and what.dtype.kind in "fiu":
            return float(what.reshape(-1)[0])
        return None

    def binary(self, node, given):
        if len(given) != 2:
            if node.kind not in ("Max", "Min", "Add") or not given:
                raise NotExpressible(f"{node} has {len(given)} inputs")
            return given[0] if len(given) == 1 else self.refuse(node)
        a, b = given
        if isinstance(a, (Images, OfImage)) or isinstance(b, (Images, OfImage)):
            prepared = self.prepare(node, a, b)
            if prepared is not None:
                return prepared
        numbers = [self.number(each) for each in given]
        if any(each is not None for each in numbers):
            return self.elementwise(node, BINARY[node.kind], [own if own is not None else each
                                                              for own, each in zip(numbers, given)])
        constant = next((each for each in given if isinstance(each, np.ndarray)), None)
        if constant is not None:
            return self.with_constant(node, b if constant is a else a, constant, constant is a)
        first, second = self.as_function(a, node), self.as_function(b, node)
        if first.base == second.base and not (first.base is second.base is None):
            return elementwise.apply(self.name_of(node), BINARY[node.kind], first, second)
        if node.kind not in ("Add", "Mul"):
            raise NotExpressible(f"{node}: recipes add and multiply layers, but have no {node.kind} of them")
        values = [self.value(each, node) for each in (a, b)]
        return getattr(self.network, "add" if node.kind == "Add" else "multiply")(self.name_of(node), values)

    def run_Sum(self, node, *given):
        values = [self.value(each, node) for each in given]
        return values[0] if len(values) == 1 else self.network.add(self.name_of(node), values)

    def with_constant(self, node, what, constant, reverse):
        """A number for each channel"""
        value = self.value(what, node)
        numbers = self.per_channel(node, value, constant)
        if node.kind == "Add" and self.take_bias(node, value, numbers):
            return value
        name = self.name_of(node)
        if node.kind == "Add":
            return self.scaled(name, value, 1.0, numbers)
        if node.kind == "Sub":
            return self.scaled(name, value, -1.0 if reverse else 1.0, numbers if reverse else -numbers)
        if node.kind == "Mul":
            return self.scaled(name, value, numbers, 0.0)
        if node.kind == "Div" and not reverse:
            return self.scaled(name, value, 1 / numbers.astype(np.float64), 0.0)
        raise NotExpressible(f"{node} with a number for each channel: Add, Sub, Mul and Div are possible")

    def per_channel(self, node, value, constant):
        axis = -1 if value.rank == 2 or value.last else -3
        sizes = [size for size in constant.shape if size != 1]
        if constant.dtype.kind not in "fiu" or len(sizes) != 1 or constant.ndim < -axis or constant.shape[axis] != sizes[0]:
            raise NotExpressible(f"{node} takes numbers of the shape {list(constant.shape)}; one number for each channel is "
                                 "possible")
        return constant.reshape(-1).astype(np.float32)

    def take_bias(self, node, value, numbers):
        """Whether a layer without biases has taken the numbers as such."""
        if value.layer not in self.unbiased or self.uses.get(self.unbiased[value.layer], 0) != 1 or len(numbers) != value.channels:
            return False
        attributes = next(each[3] for each in self.network.layers if each[0] == value.layer)
        if attributes.pop("bias", None) is None:
            return False
        del self.unbiased[value.layer]
        self.network.variable(value.layer, "biases", f"{value.layer}/biases", numbers)
        return True

    # --- The images, before the first layer

    def prepare(self, node, a, b):
        """What a node does with the images' values, or None."""
        kind = node.kind
        if isinstance(a, Images) and isinstance(b, OfImage) and kind == "Sub" and b.step == "mean" and b.images == a:
            return OfImage("centred", a)
        if isinstance(a, OfImage) and a is b and kind == "Mul" and a.step == "centred":
            return OfImage("squares", a.images)
        if isinstance(a, OfImage) and kind == "Pow" and a.step == "centred" and self.number(b) == 2:
            return OfImage("squares", a.images)
        if kind == "Max" and isinstance(a, OfImage) and a.step == "deviation":
            least = self.number(b)
            elements = a.images.height * a.images.width * self.network.input_shape[2]
            if least is not None and math.isclose(least, 1 / math.sqrt(elements), rel_tol=1e-5):
                return OfImage("bounded", a.images)
            raise NotExpressible(f"{node}: the least deviation of an image is not 1 / sqrt(its numbers), as in recipes")
        if isinstance(a, OfImage) and isinstance(b, OfImage) and kind == "Div" and (a.step, b.step) == ("centred", "bounded"):
            return dataclasses.replace(a.images, standardized=True)
        images, constant = (a, b) if isinstance(a, Images) else (b, a)
        if not isinstance(images, Images) or not isinstance(constant, np.ndarray) or self.takes_images is not None:
            return None
        channels = self.network.input_shape[2]
        numbers = constant.astype(np.float64).reshape(-1)
        if numbers.size > 1 and (constant.ndim < 3 or constant.shape[-3] != numbers.size or numbers.size != channels):
            raise NotExpressible(f"{node} changes the images by numbers of the shape {list(constant.shape)}; one for each "
                                 "channel is possible")
        reverse = images is b
        with np.errstate(all="ignore"):
            scale, shift = {"Add": (1.0, numbers), "Sub": (-1.0 if reverse else 1.0, numbers if reverse else -numbers),
                            "Mul": (numbers, 0.0), "Div": (1 / numbers, 0.0)}.get(kind, (None, None))
        if scale is None or (reverse and kind == "Div") or images.standardized:
            raise NotExpressible(f"{node} changes the images as no pipeline of a recipe does")
        return dataclasses.replace(images, scale=images.scale * scale, shift=images.shift * scale + shift)

    def run_Cast(self, node, what):
        if isinstance(what, Images) and node.attributes.get("to") not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
            raise NotExpressible(f"{node} makes the images numbers of another type; recipes compute in float32")
        return what

    def run_Slice(self, node, what, starts=None, ends=None, axes=None, steps=None):
        if not isinstance(what, Images):
            raise NotExpressible(f"{node} takes a part of a layer's output; layers of a recipe take whole ones")
        attributes = node.attributes
        starts, ends = ([int(each) for each in (given if given is not None else attributes[key])]
                        for given, key in ((starts, "starts"), (ends, "ends")))
        axes = [int(each) % 4 for each in (axes if axes is not None else attributes.get("axes", range(len(starts))))]
        if steps is not None and any(int(each) != 1 for each in steps):
            raise NotExpressible(f"{node} leaves out pixels of the images")
        box = {2: (0, what.height), 3: (0, what.width)}
        for start, end, axis in zip(starts, ends, axes, strict=True):
            if axis not in box:
                raise NotExpressible(f"{node} takes some of the images' channels; recipes take all")
            size = box[axis][1]
            box[axis] = (max(0, start + size if start < 0 else start), min(size, end + size if end < 0 else end))
        (top, bottom), (left, right) = box[2], box[3]
        if bottom <= top or right <= left:
            raise NotExpressible(f"{node} leaves nothing of the images")
        if what.resized or what.cropped or abs(top - (what.height - bottom)) > 1 or abs(left - (what.width - right)) > 1:
            raise NotExpressible(f"{node} crops the images to a part that is not the middle; recipes take the middle")
        return dataclasses.replace(what, height=bottom - top, width=right - left, cropped=True)

    def run_Resize(self, node, what, roi=None, scales=None, sizes=None):
        if not isinstance(what, Images):
            self.refuse(node)
        mode = node.attributes.get("mode", "nearest"), node.attributes.get("coordinate_transformation_mode", "half_pixel")
        if mode != ("linear", "half_pixel") or node.attributes.get("antialias", 0) or sizes is None or what.resized:
            raise NotExpressible(f"{node} resizes the images otherwise than linearly between the pixels' centres to a size")
        axes = [int(each) % 4 for each in node.attributes.get("axes", range(len(sizes)))]
        size = {2: what.height, 3: what.width, **{axis: int(each) for axis, each in zip(axes, sizes, strict=True)}}
        if not (1 <= size[2] <= 1 << 16 and 1 <= size[3] <= 1 << 16):
            raise NotExpressible(f"{node} makes images of {size[2]}x{size[3]}")
        return dataclasses.replace(what, height=size[2], width=size[3], resized=(what.height, what.width))

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
        own = self.pads(node, value.shape, window, strides, dilations)
        groups = int(node.attributes.get("group", 1))
        if groups < 1:
            raise NotExpressible(f"{node}: {groups} groups")
        out = self.network.conv(self.name_of(node, node.inputs[1]), value, weight, self.vector(node, bias, weight.shape[0]),
                                strides=strides, pads=[a + b for a, b in zip(pads, own)], dilations=dilations, groups=groups)
        if bias is None:
            self.unbiased[out.layer] = node.outputs[0]
        return out

    def run_Pad(self, node, what, pads=None, number=None, axes=None):
        mode, pads = node.attributes.get("mode", "constant"), pads if pads is not None else node.attributes.get("pads")
        if mode != "constant" or (number is not None and self.number(number) not in (0.0, None)) or axes is not None or pads is None:
            raise NotExpressible(f"{node}: recipes pad with zeros on all sides of an image")
        pads = [int(each) for each in pads]
        if len(pads) != 8 or any(pads[i] for i in (0, 1, 4, 5)) or min(pads) < 0:
            raise NotExpressible(f"{node} pads {pads}; recipes pad height and width")
        return Padded(self.value(what, node), [pads[2], pads[6], pads[3], pads[7]]) if any(pads) else what

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
        return self.network.dense(self.name_of(node, node.inputs[1]), self.value(a, node), weight, bias)

    def run_MatMul(self, node, a, b):
        weight = self.weights(node, b, 2)
        out = self.network.dense(self.name_of(node, node.inputs[1]), self.value(a, node), weight.T, None)
        self.unbiased[out.layer] = node.outputs[0]
        return out

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
        value = self.value(what, node)
        if value.rank != 4:
            raise NotExpressible(f"{node} pools what is no image")
        window = self.pair(node, "kernel_shape", [])
        strides = self.pair(node, "strides", [1, 1])
        if self.pair(node, "dilations", [1, 1]) != [1, 1]:
            raise NotExpressible(f"{node} has dilations; a recipe's pools have none")
        return self.network.pool(kind, self.name_of(node), value, window, strides,
                                 self.pads(node, value.shape, window, strides, [1, 1]),
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
        if isinstance(what, (Images, OfImage)):
            step = {"squares": "variance"}.get(getattr(what, "step", None), "mean" if isinstance(what, Images) else None)
            if sorted(int(each) % 4 for each in axes) == [1, 2, 3] and step:
                return OfImage(step, what if isinstance(what, Images) else what.images)
        value = self.value(what, node)
        axes = sorted(int(each) % value.rank for each in axes)
        if value.rank != 4 or axes != ([1, 2] if value.last else [2, 3]):
            raise NotExpressible(f"{node} is a mean over axes {axes[:4]}; recipes have that of an image's pixels")
        return self.network.global_average_pool(self.name_of(node), value, bool(node.attributes.get("keepdims", 1)))

    # --- Elementwise

    def run_Sqrt(self, node, what):
        if isinstance(what, OfImage) and what.step == "variance":
            return OfImage("deviation", what.images)
        return self.elementwise(node, np.sqrt, [what])

    def run_Clip(self, node, what, low=None, high=None):
        low = node.attributes.get("min") if low is None else self.number(low)
        high = node.attributes.get("max") if high is None else self.number(high)
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
        rate = self.number(ratio) if ratio is not None else node.attributes.get("ratio", 0.5)
        return self.network.dropout(self.name_of(node), self.value(what, node), 0.5 if rate is None else float(rate))

    def softmax(self, node, what):
        if any(self.uses.get(name) for name in node.outputs):
            raise NotExpressible(f"{node} stands within the network; recipes have a softmax in the loss only")
        self.network.note("the softmax at the end is left out: a recipe's loss has it")
        return what

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
        value = self.value(what, node)
        sizes = sizes if sizes is not None else node.attributes.get("shape")
        if not isinstance(sizes, (np.ndarray, list)):
            raise NotExpressible(f"{node} takes a shape that is not known beforehand")
        own = self.shape_of(value)
        sizes = [own[i] if int(each) == 0 and i < len(own) and not node.attributes.get("allowzero", 0) else int(each)
                 for i, each in enumerate(sizes)]
        # A file whose batch is fixed has that number in its shapes.
        sizes = [-1 if each == BATCH or (i == 0 and each > 0) else each for i, each in enumerate(sizes)]
        if len(sizes) == 2 and sizes[1] in (-1, math.prod(value.shape)):
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

    def run_Shape(self, node, what):
        if isinstance(what, Images):
            shape = [BATCH, self.network.input_shape[2], what.height, what.width]
        else:
            shape = self.shape_of(self.value(what, node))
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
        value, axes = self.value(what, node), list(node.attributes.get("perm", []))
        if axes == list(range(value.rank)):
            return value
        if value.rank == 4 and axes == [0, 2, 3, 1] and not value.last:
            return dataclasses.replace(value, last=True)
        if value.rank == 4 and axes == [0, 3, 1, 2] and value.last:
            return dataclasses.replace(value, last=False)
        raise NotExpressible(f"{node} moves the axes to {axes[:6]}; only channels to the end and back is possible")

    # --- Constants

    def folded(self, node, given):
        """What does not depend on the images."""
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
        return self.refuse(node)

    # --- The end

    def end(self):
        heads, scales = [], []
        for name in self.file.outputs:
            if name not in self.results:
                raise NotExpressible(f"nothing gives its output '{name}'")
            what, scale = self.results[name], 1.0
            if isinstance(what, Function) and (what.known() or ("",))[0] == "affine" and what.known()[1]["shift"] == 0 and (
                    what.known()[1]["scale"] > 0):
                what, scale = what.base, what.known()[1]["scale"]
            value = self.value(what, f"output '{name}'")
            if value.layer not in [each.layer for each in heads]:
                heads.append(value)
                scales.append(scale)
        self.network.end(heads)
        self.network.logit_scales = scales


def network_of(path, shape, group=32):
    """The network of an ONNX file; scale and shift of the images' numbers before it; whether these are bytes ("known",
    "guessed" or None); and the tables of the pipeline, if it does more than that."""
    translation = Translation(OnnxFile(path), shape, group)
    images = translation.takes_images
    scale, shift = np.reshape(images.scale, -1), np.reshape(images.shift, -1)
    takes_bytes = "known" if translation.element == onnx.TensorProto.UINT8 else (
        "guessed" if (np.abs(scale) > 0).all() and (1 / np.abs(scale) >= 2).all() else None)
    return translation.network, (scale, shift), takes_bytes, boxes(images, translation.network)


def boxes(images, network):
    """The recipe's kind of pipeline, and its boxes for training and evaluation."""
    if images.standardized:
        if network.input_shape != (24, 24, 3) or images.resized or np.ptp(images.scale) or np.ptp(images.shift):
            raise NotExpressible("standardizes each image; in a recipe only 24x24 of the tutorial's pipeline are so")
        return "tutorial", "", ""
    if images.resized:
        if not images.cropped:
            return None, "", ""
        fraction = images.resized[0] / images.size[0]
        if abs(fraction - images.resized[1] / images.size[1]) > 0.01:
            raise NotExpressible("crops its images to another aspect and resizes them")
        return None, "", f'box = "centre"\nfraction = {fraction:.6g}\n'
    if images.cropped:
        return None, 'box = "random_crop"\n', 'box = "centre_crop"\n'
    return None, "", ""
