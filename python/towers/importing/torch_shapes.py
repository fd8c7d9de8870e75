"""Shapes of a module's tensors, and what changes them."""

import dataclasses
import math

import torch

from .errors import NotExpressible
from .torch_graph import BATCH, Graph
from .value import Value


class Images:
    """The module's input, and what it has computed from it number by number so far."""

    def __init__(self, scale=1.0, shift=0.0):
        self.scale, self.shift = scale, shift


@dataclasses.dataclass(frozen=True)
class Expanded:
    """A value of one pixel, repeated to this shape of the framework's."""

    value: Value
    shape: tuple


class Shapes(Graph):
    def shape_of(self, what, node):
        if isinstance(what, torch.Tensor):
            return tuple(what.shape)
        value = self.network.images if isinstance(what, Images) else self.value(what, node)
        height, width, channels = value.shape
        if value.rank == 2:
            return (BATCH, height * width * channels)
        return (BATCH, height, width, channels) if value.last else (BATCH, channels, height, width)

    def attribute_of(self, what, name, node):
        if name == "shape":
            return self.shape_of(what, node)
        if name == "ndim":
            return len(self.shape_of(what, node))
        if name in ("dtype", "device"):
            return {"dtype": torch.float32, "device": torch.device("cpu")}[name]
        return self.refuse(node)

    def expand(self, node, what, given):
        """A pixel repeated to an image."""
        source, wanted = self.value(given.all[0], node), given.all[1] if len(given.all) == 2 else given.all[1:]
        own = self.shape_of(source, node)
        wanted = self.shape_of(wanted, node) if what == "expand_as" else wanted
        if len(wanted) != len(own) or source.pixels != 1:
            raise NotExpressible(f"{self.called(node)} gives the shape {list(wanted)}; recipes repeat a pixel, and nothing else")
        return Expanded(source, tuple(mine if each == -1 else each for each, mine in zip(wanted, own)))

    def without_repeats(self, what, other):
        """A pixel in place of its repetitions, if the other operand has their shape."""
        repeated = isinstance(what, Expanded) and isinstance(other, Value) and self.shape_of(other, None) == what.shape
        return what.value if repeated else what

    def flatten(self, node, source, start, end):
        if source.rank == 2 or start == 2 and source.pixels == 1:
            return dataclasses.replace(source, rank=2)
        if start not in (1, -3) or end not in (-1, 3):
            raise NotExpressible(f"{self.called(node)} flattens axes {start} to {end}; recipes flatten whole images")
        return source.flat()

    def reshape(self, node, what, source, given):
        elements = math.prod(source.shape)
        if what in ("unsqueeze", torch.unsqueeze, "squeeze", torch.squeeze):
            if source.pixels != 1:
                raise NotExpressible(f"{self.called(node)} changes the axes of an image")
            wide = "unsqueeze" in str(what if isinstance(what, str) else what.__name__)
            return dataclasses.replace(source, rank=4 if wide else 2, last=False)
        sizes = given.all[1] if isinstance(given.all[1], (tuple, list)) else given.all[1:]
        sizes = [-1 if each == BATCH else each for each in sizes]
        if len(sizes) == 2 and sizes[1] in (-1, elements):
            return source.flat()
        if len(sizes) == 4 and tuple(sizes[2:]) == (1, 1) and source.pixels == 1:
            return dataclasses.replace(source, rank=4, last=False)
        own = self.shape_of(source, node)
        if len(sizes) == len(own) and all(each in (-1, mine) for each, mine in zip(sizes[1:], own[1:])):
            return source
        raise NotExpressible(f"{self.called(node)} gives the shape {sizes}; recipes flatten images, and nothing else")

    def permute(self, node, source, axes):
        if source.rank == 4 and axes == [0, 2, 3, 1] and not source.last:
            return dataclasses.replace(source, last=True)
        if source.rank == 4 and axes == [0, 3, 1, 2] and source.last:
            return dataclasses.replace(source, last=False)
        raise NotExpressible(f"{self.called(node)} moves the axes to {axes}; only channels to the end and back is possible")
