"""The graph of an ONNX file: the result of each node, and functions of one number that several nodes write."""

import dataclasses

import numpy as np

from . import elementwise, onnx_images
from .elementwise import Function
from .errors import NotExpressible
from .network import Network
from .onnx_constants import BINARY, UNARY, fold, refuse
from .onnx_images import Images, OfImage, number
from .value import Value


class Padded:
    """A layer's output with zeros around it."""

    def __init__(self, value, pads):
        self.value, self.pads = value, pads


@dataclasses.dataclass(frozen=True)
class Rows:
    """A layer's output, with channels last, as a matrix: each pixel of each image is a row."""

    value: Value

    @property
    def layer(self):
        return self.value.layer


@dataclasses.dataclass(frozen=True)
class Ended:
    """An output that is computed of the logits `what` by "softmax" or "log_softmax"."""

    what: object
    ending: str


class Graph:
    """After construction, `network` has the layers. A derived class says what nodes become: run_Conv() and so on, by their
    kind."""

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
        self.stored = height, width, channels = self.stored_shape(sizes, shape)
        # The network's own size is known once the file has cropped and resized its images.
        self.network = Network(self.stored, group)
        self.results = dict(file.constants)
        self.results[self.input] = Images((height, width), channels, height, width, last=self.last)
        self.unbiased = {}  # layers without biases, by name, with the file's names of their output
        for node in file.nodes:
            self.run(node)
        self.end()

    def stored_shape(self, sizes, shape):
        if len(sizes) != 4:
            raise NotExpressible(f"input '{self.input}' has {len(sizes)} axes; images are [batch, channels, height, width], or "
                                 "[batch, height, width, channels]")
        self.last = onnx_images.have_channels_last(self.input, sizes, self.file.nodes)
        height, width, channels = sizes[1:] if self.last else (*sizes[2:], sizes[1])
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
        self.unbiased.get(getattr(result, "layer", None), []).append(node.outputs[0])
        for name in node.outputs[1:]:
            if name and (self.uses.get(name) or name in self.file.outputs):
                raise NotExpressible(f"{node} has a second output, '{name}', that is used; recipes' layers have one")

    def result_of(self, node, given):
        if all(each is None or isinstance(each, np.ndarray) for each in given):
            return np.asarray(fold(node, given))
        method = getattr(self, "run_" + node.kind, None)
        if method is not None:
            return method(node, *given)
        if node.kind in UNARY:
            return self.elementwise(node, UNARY[node.kind], given[:1])
        if node.kind in BINARY:
            return self.binary(node, given)
        refuse(node)

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
            prepared = dataclasses.replace(what, last=False)
            if self.takes_images not in (None, prepared):
                raise NotExpressible(f"{node} takes the images otherwise prepared than the layers before")
            if self.takes_images is None:
                self.takes_images = prepared
                self.network.input_shape = (what.height, what.width, what.channels)
                self.network.images = Value("images", self.network.input_shape)
            return dataclasses.replace(self.network.images, last=what.last)
        if isinstance(what, Padded):
            raise NotExpressible(f"{node} takes a Pad's output; recipes pad in convolutions and pools")
        if isinstance(what, OfImage):
            raise NotExpressible(f"{node} takes a statistic of the images; only their standardization is possible")
        if isinstance(what, Rows):
            raise NotExpressible(f"{node} takes pixels as the rows of a matrix; only a dense layer may")
        if isinstance(what, Ended):
            raise NotExpressible(f"{node} takes a softmax's output; recipes have a softmax in the loss only")
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
                             "relu, relu6, leaky_relu, silu, sigmoid, hard_swish, softplus and gelu")

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

    def binary(self, node, given):
        if len(given) != 2:
            if node.kind not in ("Max", "Min", "Add") or not given:
                raise NotExpressible(f"{node} has {len(given)} inputs")
            return given[0] if len(given) == 1 else refuse(node)
        a, b = given
        if isinstance(a, (Images, OfImage)) or isinstance(b, (Images, OfImage)):
            prepared = onnx_images.prepare(node, a, b, self.takes_images is not None)
            if prepared is not None:
                return prepared
        numbers = [number(each) for each in given]
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
        names = self.unbiased.get(value.layer)
        if names is None or len(numbers) != value.channels or any(
                self.uses.get(name) != 1 or name in self.file.outputs for name in names):
            return False
        attributes = next(each[3] for each in self.network.layers if each[0] == value.layer)
        if attributes.pop("bias", None) is None:
            return False
        del self.unbiased[value.layer]
        self.network.variable(value.layer, "biases", f"{value.layer}/biases", numbers)
        return True

    # --- The end

    def end(self):
        values, scales = [], []
        for name in self.file.outputs:
            if name not in self.results:
                raise NotExpressible(f"nothing gives its output '{name}'")
            what, scale, ending = self.results[name], 1.0, ""
            if isinstance(what, Ended):
                what, ending = what.what, what.ending
            if isinstance(what, Function) and (what.known() or ("",))[0] == "affine" and what.known()[1]["shift"] == 0 and (
                    what.known()[1]["scale"] > 0):
                what, scale = what.base, what.known()[1]["scale"]
            values.append(dataclasses.replace(self.value(what, f"output '{name}'"), ending=ending))
            scales.append(scale)
        self.network.end(values, scales)
