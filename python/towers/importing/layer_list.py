"""A recipe's network in the making: its layers by name, their variables and its heads."""

import dataclasses
import math

import numpy as np

from .errors import NotExpressible, plain
from .value import Value


def identity(array):
    return array


@dataclasses.dataclass(frozen=True)
class Head:
    """Logits: a layer's output times `scale`, as a loss takes them. `output`: the number of the model's output that gives
    them, or their "softmax" or "log_softmax" (`ending`)."""

    layer: str
    output: int = 0
    scale: float = 1.0
    ending: str = ""


class LayerList:
    """Layers by name, in their order. `variables`: by the framework's name, this one's name and a function that turns
    an array of the framework's axes into one of a recipe's."""

    def __init__(self, shape, group):
        height, width, channels = shape
        if channels not in (1, 3):
            raise NotExpressible(f"takes images of {channels} channels; a recipe's have 1 (grey) or 3 (red, green, blue)")
        self.input_shape, self.group = (height, width, channels), group
        self.images = Value("images", self.input_shape)
        self.layers = []  # (name, kind, inputs, attributes)
        self.variables, self.values = {}, {}
        self.noted = {}
        self.heads = []
        self.names = {"images", "input"}

    # --- What layers have in common

    def note(self, text, node=None):
        """Remembers what is not as in the model, and the first node of which that is so."""
        self.noted.setdefault(text, []).append(node)

    @property
    def notes(self):
        places = {text: [node for node in nodes if node is not None] for text, nodes in self.noted.items()}
        more = lambda nodes: f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        return [plain(text + (f" ({nodes[0]}{more(nodes)})" if nodes else "")) for text, nodes in places.items()]

    def free_name(self, wanted):
        name = "".join("." if each == "/" else each for each in wanted if each.isprintable() and not each.isspace())
        name = name.strip(".") or "layer"
        if name[0] == "$":
            name = "_" + name
        if name not in self.names:
            return name
        number = 2
        while f"{name}_{number}" in self.names:
            number += 1
        return f"{name}_{number}"

    def add_layer(self, name, kind, inputs, shape, **attributes):
        if min(shape) < 1:
            raise NotExpressible(f"'{name}' would give an empty image, {list(shape)}; give larger images")
        if math.prod(shape) >= 2**31:
            raise NotExpressible(f"'{name}' would give {list(shape)}, more values than a device can count")
        name = self.free_name(name)
        self.names.add(name)
        self.layers.append((name, kind, [each.layer for each in inputs], attributes))
        first = inputs[0]
        return dataclasses.replace(first, layer=name, shape=tuple(int(each) for each in shape))

    def kind_of(self, value):
        return next((kind for name, kind, *_ in self.layers if name == value.layer), None)

    def variable(self, layer, ours, theirs, array, move=identity):
        """`theirs`: the framework's name, under which renamed() finds it."""
        name = f"{layer}/{ours}"
        if theirs in self.variables:
            raise NotExpressible(f"'{layer}' shares its variables with '{self.variables[theirs][0].rsplit('/', 1)[0]}'; "
                                 "layers of a recipe have variables of their own")
        self.variables[theirs] = (name, move)
        if array is None:
            return
        array = np.asarray(array, np.float32)
        if not np.isfinite(array).all():
            raise NotExpressible(f"'{layer}': its {ours} are not all finite")
        self.values[name] = np.ascontiguousarray(move(array), np.float32)

    # --- The end

    def end(self, values, scales=None):
        """values: of the model's outputs, of which each layer counts once; scales: factors that they still get."""
        for output, value in enumerate(values):
            if value.pixels > 1 or value.layer == "images":
                raise NotExpressible(f"its output is {list(value.shape)}; a classifier's is one number for each class")
            if value.order is not None:
                raise NotExpressible("its output is a flattened image; a classifier's is one number for each class")
            if value.layer not in [each.layer for each in self.heads]:
                self.heads.append(Head(value.layer, output, scales[output] if scales else 1.0, value.ending))
        counts = {value.channels for value in values}
        if len(counts) > 1:
            raise NotExpressible(f"its outputs have {sorted(counts)} classes; all heads need the same number")
        self.classes = values[0].channels
        if self.classes < 2:
            raise NotExpressible("has one output; a recipe needs at least two classes")
        if not self.values and not self.variables:
            raise NotExpressible("has no layer with weights")
        self.drop_unused()
        self.free_classes()

    def drop_unused(self):
        needed = {head.layer for head in self.heads}
        for name, _, inputs, _ in reversed(self.layers):
            if name in needed:
                needed.update(inputs)
        dropped = [name for name, *_ in self.layers if name not in needed]
        if dropped:
            self.note(f"{len(dropped)} layers that no output depends on are left out, such as '{dropped[0]}'")
        self.layers = [each for each in self.layers if each[0] in needed]
        unused = lambda name: name.rsplit("/", 1)[0] in dropped
        self.values = {name: each for name, each in self.values.items() if not unused(name)}
        self.variables = {name: each for name, each in self.variables.items() if not unused(each[0])}

    def free_classes(self):
        """The layers of the logits take their number of units from input.classes."""
        layers = {name: each for each in self.layers for name in [each[0]]}
        for head in self.heads:
            name = head.layer
            while name in layers:
                _, kind, inputs, attributes = layers[name]
                size = {"dense": "units", "conv2d": "filters"}.get(kind)
                if size is not None:
                    if attributes.get(size) == self.classes:
                        attributes[size] = "$classes"
                    break
                if len(inputs) != 1:
                    break
                name = inputs[0]

    def check_complete(self):
        """A recipe's variables begin with the model's, or the import has no use."""
        for name, _ in self.variables.values():
            if name not in self.values:
                layer, variable = name.rsplit("/", 1)
                raise NotExpressible(f"'{layer}': its {variable} are not to be found in the model")
            if not np.isfinite(self.values[name]).all():
                raise NotExpressible(f"variable '{name}' has numbers that are not finite")

    def renamed(self, arrays):
        """The framework's name -> array becomes the recipe's name -> array with the recipe's axes."""
        return {self.variables[name][0]: np.ascontiguousarray(self.variables[name][1](np.asarray(each)))
                for name, each in arrays.items() if name in self.variables}
