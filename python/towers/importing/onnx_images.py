"""What an ONNX file does with its images before the first layer."""

import dataclasses
import math

import numpy as np
import onnx

from .errors import NotExpressible
from .onnx_constants import BATCH


@dataclasses.dataclass(frozen=True)
class Images:
    """The input, and what has been computed from it so far: scale * x + shift of a part of it."""

    size: tuple  # of the stored picture, height and width
    channels: int
    height: int
    width: int
    last: bool = False  # the channels are the last axis
    scale: object = 1.0
    shift: object = 0.0
    cropped: bool = False
    resized: bool = False
    standardized: bool = False

    @property
    def axes(self):
        """Those of height, width and channels."""
        return (1, 2, 3) if self.last else (2, 3, 1)

    @property
    def shape(self):
        sides = (self.height, self.width, self.channels)
        return [BATCH, *sides] if self.last else [BATCH, sides[2], *sides[:2]]


@dataclasses.dataclass(frozen=True)
class OfImage:
    """A step of standardizing each image: mean, centred, squares, variance, deviation, bounded."""

    step: str
    images: Images


def number(what):
    """One number, or None."""
    if isinstance(what, np.ndarray) and what.size == 1 and what.dtype.kind in "fiu":
        return float(what.reshape(-1)[0])
    return None


def have_channels_last(name, sizes, nodes):
    """Whether an input of these sizes has its channels at the end, as TensorFlow's have."""
    colours = (1, 3)
    if (sizes[1] in colours) != (sizes[3] in colours):
        return sizes[3] in colours
    reached = {name}
    for node in nodes:  # until the images' axes are moved
        if reached.intersection(node.inputs):
            if node.kind == "Transpose":
                return list(node.attributes.get("perm", [])) == [0, 3, 1, 2]
            reached.update(node.outputs if node.kind in ("Add", "Sub", "Mul", "Div", "Cast", "Identity") else [])
    return False


def prepare(node, a, b, taken):
    """What a node of two operands does with the images' values, or None. taken: whether a layer has them already."""
    kind = node.kind
    if isinstance(a, Images) and isinstance(b, OfImage) and kind == "Sub" and b.step == "mean" and b.images == a:
        return OfImage("centred", a)
    if isinstance(a, OfImage) and a is b and kind == "Mul" and a.step == "centred":
        return OfImage("squares", a.images)
    if isinstance(a, OfImage) and kind == "Pow" and a.step == "centred" and number(b) == 2:
        return OfImage("squares", a.images)
    if kind == "Max" and isinstance(a, OfImage) and a.step == "deviation":
        least, elements = number(b), math.prod(a.images.shape[1:])
        if least is not None and math.isclose(least, 1 / math.sqrt(elements), rel_tol=1e-5):
            return OfImage("bounded", a.images)
        raise NotExpressible(f"{node}: the least deviation of an image is not 1 / sqrt(its numbers), as in recipes")
    if isinstance(a, OfImage) and isinstance(b, OfImage) and kind == "Div" and (a.step, b.step) == ("centred", "bounded"):
        return dataclasses.replace(a.images, standardized=True)
    images, constant = (a, b) if isinstance(a, Images) else (b, a)
    if not isinstance(images, Images) or not isinstance(constant, np.ndarray) or taken:
        return None
    numbers, axis = constant.astype(np.float64).reshape(-1), images.axes[2] - 4
    if numbers.size > 1 and (constant.ndim < -axis or constant.shape[axis] != numbers.size or numbers.size != images.channels):
        raise NotExpressible(f"{node} changes the images by numbers of the shape {list(constant.shape)}; one for each "
                             "channel is possible")
    reverse = images is b
    with np.errstate(all="ignore"):
        scale, shift = {"Add": (1.0, numbers), "Sub": (-1.0 if reverse else 1.0, numbers if reverse else -numbers),
                        "Mul": (numbers, 0.0), "Div": (1 / numbers, 0.0)}.get(kind, (None, None))
    if scale is None or (reverse and kind == "Div") or images.standardized:
        raise NotExpressible(f"{node} changes the images as no pipeline of a recipe does")
    return dataclasses.replace(images, scale=images.scale * scale, shift=images.shift * scale + shift)


def mean(node, what, axes):
    """A mean over these axes of the images or of their squares, or None."""
    step = "mean" if isinstance(what, Images) else {"squares": "variance"}.get(what.step)
    if sorted(int(each) % 4 for each in axes) != [1, 2, 3] or step is None:
        return None
    return OfImage(step, what if isinstance(what, Images) else what.images)


def cast(node, what):
    if node.attributes.get("to") not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
        raise NotExpressible(f"{node} makes the images numbers of another type; recipes compute in float32")
    return what


def crop(node, what, starts, ends, axes, steps):
    attributes = node.attributes
    starts, ends = ([int(each) for each in (given if given is not None else attributes[key])]
                    for given, key in ((starts, "starts"), (ends, "ends")))
    axes = [int(each) % 4 for each in (axes if axes is not None else attributes.get("axes", range(len(starts))))]
    if steps is not None and any(int(each) != 1 for each in steps):
        raise NotExpressible(f"{node} leaves out pixels of the images")
    rows, columns, _ = what.axes
    box = {rows: (0, what.height), columns: (0, what.width)}
    for start, end, axis in zip(starts, ends, axes, strict=True):
        if axis not in box:
            raise NotExpressible(f"{node} takes some of the images' channels; recipes take all")
        size = box[axis][1]
        box[axis] = (max(0, start + size if start < 0 else start), min(size, end + size if end < 0 else end))
    (top, bottom), (left, right) = box[rows], box[columns]
    if bottom <= top or right <= left:
        raise NotExpressible(f"{node} leaves nothing of the images")
    if what.resized or what.cropped or abs(top - (what.height - bottom)) > 1 or abs(left - (what.width - right)) > 1:
        raise NotExpressible(f"{node} crops the images to a part that is not the middle; recipes take the middle")
    return dataclasses.replace(what, height=bottom - top, width=right - left, cropped=True)


def resize(node, what, sizes):
    mode = node.attributes.get("mode", "nearest"), node.attributes.get("coordinate_transformation_mode", "half_pixel")
    if mode != ("linear", "half_pixel") or node.attributes.get("antialias", 0) or sizes is None or what.resized:
        raise NotExpressible(f"{node} resizes the images otherwise than linearly between the pixels' centres to a size")
    rows, columns, _ = what.axes
    axes = [int(each) % 4 for each in node.attributes.get("axes", range(len(sizes)))]
    size = {rows: what.height, columns: what.width, **{axis: int(each) for axis, each in zip(axes, sizes, strict=True)}}
    if not (1 <= size[rows] <= 1 << 16 and 1 <= size[columns] <= 1 << 16):
        raise NotExpressible(f"{node} makes images of {size[rows]}x{size[columns]}")
    return dataclasses.replace(what, height=size[rows], width=size[columns], resized=(what.height, what.width))


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
