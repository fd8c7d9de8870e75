"""The kinds of layers that a recipe's network has.

The readers of PyTorch modules and of ONNX files call the methods of Network. These take tensors in the order of those
frameworks (channels first) and write layers and variables as docs/recipes.md says (channels last).
"""

import dataclasses
import math

import numpy as np

from .errors import NotExpressible
from .layer_list import LayerList, identity


def short(pair):
    """[n, n] as n."""
    return pair[0] if pair[0] == pair[1] else list(pair)


def short_pads(top, bottom, left, right):
    if top == bottom and left == right:
        return short([top, left])
    return [top, bottom, left, right]


class Network(LayerList):
    """Has a method for each kind. They return the new layer's output."""

    def of_image(self, value, name, what):
        """The value, which must be an image with the channels where the framework has them first."""
        if value.last:
            raise NotExpressible(f"'{name}': {what} over axes that were moved; move the channels back before it")
        if value.order is not None:
            raise NotExpressible(f"'{name}': {what} after a flattened image; use it before flattening")
        return value

    # --- Layers with weights

    def conv(self, name, value, weight, bias, *, shape=None, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), groups=1,
             sources=(None, None)):
        """weight: [out, in / groups, height, width]; pads: top, bottom, left, right; sources: the framework's names."""
        value = self.of_image(value, name, "a convolution")
        filters, per_group, *kernel = shape if shape is not None else weight.shape
        if per_group * groups != value.channels:
            raise NotExpressible(f"'{name}' takes {per_group * groups} channels, but gets {value.channels}")
        if min(*kernel, *strides, *dilations) < 1 or min(pads) < 0 or filters % groups:
            raise NotExpressible(f"'{name}': kernel {list(kernel)}, strides {list(strides)}, pads {list(pads)} and groups "
                                 f"{groups} do not fit together")
        height, width = (self.placed(value.shape[i], kernel[i], strides[i], pads[2 * i] + pads[2 * i + 1], dilations[i])
                         for i in (0, 1))
        attributes = {"kernel": short(kernel)}
        if groups > 1 and groups == value.channels:
            attributes = {"groups": "depthwise", "multiplier": filters // groups, **attributes}
        else:
            attributes = {"filters": filters, **attributes, **({"groups": groups} if groups > 1 else {})}
        if tuple(strides) != (1, 1):
            attributes["stride"] = short(strides)
        if tuple(dilations) != (1, 1):
            attributes["dilation"] = short(dilations)
        attributes["pad"] = short_pads(*pads)
        has_bias = bias is not None or sources[1] is not None
        if not has_bias:
            attributes["bias"] = False
        out = self.add_layer(name, "conv2d", [value], (height, width, filters), **attributes)
        out = dataclasses.replace(out, rank=4)
        self.variable(out.layer, "weights", sources[0] or f"{out.layer}/weights", weight,
                      lambda w: w.transpose(2, 3, 1, 0))
        if has_bias:
            self.variable(out.layer, "biases", sources[1] or f"{out.layer}/biases", bias)
        return out

    def dense(self, name, value, weight, bias, *, shape=None, sources=(None, None)):
        """weight: [out, in]"""
        units, inputs = shape if shape is not None else weight.shape
        if value.rank == 4 and value.last and inputs == value.channels and value.pixels > 1:
            # A dense layer on each pixel is a convolution with a kernel of one.
            four = dataclasses.replace(value, last=False)
            out = self.conv(name, four, None if weight is None else weight.reshape(units, inputs, 1, 1), bias,
                            shape=(units, inputs, 1, 1), sources=sources)
            ours, move = self.variables[sources[0] or f"{out.layer}/weights"]
            self.variables[sources[0] or f"{out.layer}/weights"] = (
                ours, lambda w: move(w.reshape(units, inputs, 1, 1)))
            return dataclasses.replace(out, last=True)
        if value.rank == 4 and value.pixels > 1:
            raise NotExpressible(f"'{name}' takes an image that is not flat; flatten it")
        value = value.flat()
        if math.prod(value.shape) != inputs:
            raise NotExpressible(f"'{name}' takes {inputs} values, but gets {math.prod(value.shape)}")
        order = value.order
        has_bias = bias is not None or sources[1] is not None
        out = self.add_layer(name, "dense", [value], (1, 1, units), units=units, **({} if has_bias else {"bias": False}))
        out = dataclasses.replace(out, order=None)
        self.variable(out.layer, "weights", sources[0] or f"{out.layer}/weights", weight,
                      (lambda w: w.T) if order is None else (lambda w: w[:, order].T))
        if has_bias:
            self.variable(out.layer, "biases", sources[1] or f"{out.layer}/biases", bias)
        return out

    def scale_and_shift(self, name, value, scale, shift, sources=(None, None)):
        """A number per channel as factor, and one as addend or None."""
        value = self.as_vector(value)
        one = lambda v: np.asarray(v, np.float32).reshape(-1)
        channels = value.channels
        full = lambda v: np.broadcast_to(one(v), (channels,)) if one(v).size in (1, channels) else None
        factors, addends = full(1.0 if scale is None else scale), None if shift is None else full(shift)
        if factors is None or (shift is not None and addends is None):
            raise NotExpressible(f"'{name}': its numbers are not one per channel")
        if value.order is not None:
            factors, addends = factors[value.order], None if addends is None else addends[value.order]
        plain = dataclasses.replace(value, order=None, last=False)
        out = self.conv(name, plain, factors.reshape(channels, 1, 1, 1), addends, groups=channels)
        return dataclasses.replace(out, order=value.order, rank=value.rank, last=value.last)

    # --- Normalizations

    def as_vector(self, value):
        """A flat image of several pixels becomes a vector of channels."""
        if value.rank == 2 and value.pixels > 1:
            return self.add_layer("flatten", "flatten", [value], (1, 1, math.prod(value.shape)))
        return value

    def batch_norm(self, name, value, gamma, beta, mean, variance, *, epsilon, decay=0.9, affine=True, sources=(None,) * 4):
        value = self.as_vector(value)
        if value.last and value.rank == 4:
            self.of_image(value, name, "a batch norm")
        order = value.order
        for what, each in (("mean", mean), ("variance", variance)):
            if each is not None and np.size(each) != value.channels:
                raise NotExpressible(f"'{name}': its {what} has {np.size(each)} values for {value.channels} channels")
        attributes = {"group": self.group, "epsilon": float(epsilon), "decay": float(decay)}
        if not affine:
            attributes |= {"gamma": False, "beta": False}
        out = self.add_layer(name, "batch_norm", [value], value.shape, **attributes)
        move = identity if order is None else (lambda v: v[order])
        for ours, array, theirs in zip(("gamma", "beta", "moving_mean", "moving_variance"), (gamma, beta, mean, variance),
                                       sources):
            if affine or ours.startswith("moving"):
                self.variable(out.layer, ours, theirs or f"{out.layer}/{ours}", array, move)
        return out

    def layer_norm(self, name, value, gamma, beta, *, axes, epsilon, sources=(None, None)):
        """axes: the framework's shape that it normalizes together."""
        value = self.as_vector(value)
        if value.pixels > 1 and not (value.last and tuple(axes) == (value.channels,)):
            raise NotExpressible(f"'{name}' normalizes over {list(axes)}; a recipe's layer_norm takes each pixel's channels, "
                                 "which must be the last axis, or a flat vector")
        if math.prod(axes) != value.channels:
            raise NotExpressible(f"'{name}' normalizes {list(axes)}, but gets {value.channels} values")
        order = value.order
        attributes = {"epsilon": float(epsilon)}
        has_gamma, has_beta = (array is not None or theirs is not None for array, theirs in zip((gamma, beta), sources))
        if not has_gamma:
            attributes["gamma"] = False
        if not has_beta:
            attributes["beta"] = False
        out = self.add_layer(name, "layer_norm", [value], value.shape, **attributes)
        move = identity if order is None else (lambda v: v.reshape(-1)[order])
        if has_gamma:
            self.variable(out.layer, "gamma", sources[0] or f"{out.layer}/gamma", gamma, move)
        if has_beta:
            self.variable(out.layer, "beta", sources[1] or f"{out.layer}/beta", beta, move)
        return out

    def lrn(self, name, value, size, alpha, beta, bias):
        self.of_image(value, name, "a local response normalization")
        if size % 2 == 0:
            raise NotExpressible(f"'{name}' takes {size} channels; a recipe's lrn takes an odd number (2 radius + 1)")
        return self.add_layer(name, "lrn", [value], value.shape, radius=size // 2, alpha=float(alpha) / size,
                              beta=float(beta), bias=float(bias))

    # --- Pooling

    @staticmethod
    def placed(size, window, stride, padding, dilation=1):
        return (size + padding - dilation * (window - 1) - 1) // stride + 1

    @staticmethod
    def extra(size, window, stride, before, after):
        """Rows after the image that a last window of "ceil mode" needs; that window begins within the image or the
        padding before it."""
        count = -(-(size + before + after - window) // stride) + 1
        if (count - 1) * stride >= size + before:
            count -= 1
        return max(0, (count - 1) * stride + window - (size + before + after))

    def pool(self, kind, name, value, window, stride, pads, ceil_mode=False, count_padding=None):
        value = self.of_image(value, name, "a pool")
        if value.rank != 4:
            raise NotExpressible(f"'{name}': a pool takes an image, and this is flat")
        if min(*window, *stride) < 1 or min(pads) < 0:
            raise NotExpressible(f"'{name}': window {list(window)}, stride {list(stride)}, pads {list(pads)}: must be positive")
        pads, height_width = list(pads), []
        for i in (0, 1):
            if ceil_mode:
                more = self.extra(value.shape[i], window[i], stride[i], *pads[2 * i:2 * i + 2])
                if more and count_padding:
                    raise NotExpressible(f"'{name}': an average pool with ceil mode that counts the padding; images of "
                                         "another size, or without ceil mode, are possible")
                pads[2 * i + 1] += more
            height_width.append(self.placed(value.shape[i], window[i], stride[i], pads[2 * i] + pads[2 * i + 1]))
        attributes = {"window": short(window), "stride": short(stride), "pad": short_pads(*pads)}
        if count_padding is not None and any(pads):
            attributes["count_padding"] = count_padding
        return self.add_layer(name, kind, [value], (*height_width, value.channels), **attributes)

    def global_average_pool(self, name, value, keeps_rank=True):
        if value.order is not None or value.rank != 4:
            raise NotExpressible(f"'{name}': the mean over an image's pixels, but this is flat")
        out = self.add_layer(name, "global_average_pool", [value], (1, 1, value.channels))
        return dataclasses.replace(out, rank=4 if keeps_rank else 2, last=value.last and keeps_rank)

    def adaptive_pool(self, kind, name, value, size):
        """An average or max pool to this size of output."""
        self.of_image(value, name, "a pool")
        height, width, _ = value.shape
        size = [own if wanted is None else wanted for wanted, own in zip(size, (height, width))]
        if size == [height, width]:
            return value
        if size == [1, 1] and kind == "average_pool":
            return self.global_average_pool(name, value)
        if height % size[0] or width % size[1]:
            raise NotExpressible(f"'{name}' makes {size[0]}x{size[1]} of {height}x{width} with windows of several sizes; "
                                 "images with which the sizes divide are possible, or Identity in its place")
        window = (height // size[0], width // size[1])
        return self.pool(kind, name, value, window, window, (0, 0, 0, 0))

    # --- Layers without variables

    def activation(self, kind, name, value, **attributes):
        return self.add_layer(name, kind, [value], value.shape, **attributes)

    def dropout(self, name, value, rate):
        if not 0 <= rate < 1:
            raise NotExpressible(f"'{name}' drops with probability {rate}; give at least 0 and less than 1")
        if rate == 0:
            return value
        return self.add_layer(name, "dropout", [value], value.shape, keep=float(1 - rate))

    def add(self, name, values):
        values = self.alike(name, values)
        return self.add_layer(name, "add", values, values[0].shape)

    def multiply(self, name, values):
        a, b = values
        if a.shape != b.shape and a.pixels < b.pixels:
            a, b = b, a
        if a.shape != b.shape and b.shape != (1, 1, a.channels):
            raise NotExpressible(f"'{name}' multiplies {list(a.shape)} by {list(b.shape)}; a recipe's multiply takes two of "
                                 "one shape, or a second one of [1, 1, channels]")
        if a.shape == b.shape:
            a, b = self.alike(name, [a, b])
        return self.add_layer(name, "multiply", [a, b], a.shape)

    def alike(self, name, values):
        first = values[0]
        for each in values[1:]:
            if each.shape != first.shape:
                raise NotExpressible(f"'{name}' takes values of different shapes, {list(first.shape)} and "
                                     f"{list(each.shape)}; a recipe's layer takes equal ones")
            same_order = (each.order is None) == (first.order is None) and (
                each.order is None or np.array_equal(each.order, first.order))
            if not same_order or (each.last != first.last and each.pixels > 1):
                raise NotExpressible(f"'{name}' takes values whose axes come in different orders")
        return values

    def concatenate(self, name, values):
        if any(each.rank == 2 for each in values):
            values = [self.as_vector(each.flat()) for each in values]
        first = values[0]
        if len(values) == 1:
            return first
        for each in values[1:]:
            if each.shape[:2] != first.shape[:2] or each.last != first.last:
                raise NotExpressible(f"'{name}' joins {list(first.shape)} and {list(each.shape)}; heights and widths must be "
                                     "equal")
        order = None
        if any(each.order is not None for each in values):
            parts, begin = [], 0
            for each in values:
                parts.append(begin + (np.arange(each.channels) if each.order is None else each.order))
                begin += each.channels
            order = np.concatenate(parts)
        out = self.add_layer(name, "concatenate", values, (*first.shape[:2], sum(each.channels for each in values)))
        return dataclasses.replace(out, order=order)
