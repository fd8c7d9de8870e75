"""ONNX files whose images have their channels at the end, as tf2onnx writes them. For importing.py."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from towers.importing import import_onnx

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]


class File:
    """A graph in the making. Each method adds a node and returns the name of its output."""

    def __init__(self, sizes=("n", 8, 8, 3), element=TensorProto.FLOAT):
        self.sizes, self.element, self.nodes, self.constants = sizes, element, [], []
        self.random = np.random.default_rng(3)

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape):
        return self.constant(self.random.normal(0, 0.5, shape).astype(np.float32))

    def add(self, kind, *inputs, **attributes):
        inputs = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def transposed(self, x, perm):
        return self.add("Transpose", x, perm=perm)

    def conv(self, x, into, out, **attributes):
        """Between transposes."""
        y = self.add("Conv", self.transposed(x, FIRST), self.weights(out, into, 3, 3), self.weights(out), **attributes)
        return self.transposed(y, LAST)

    def end(self, x, values):
        """Flattens, and a dense layer."""
        flat = self.add("Reshape", x, np.array([-1, values]))
        return self.add("Add", self.add("MatMul", flat, self.weights(values, 4)), self.weights(4))

    def model(self, *outputs):
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", self.element, list(self.sizes))],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def one_transpose():
    file = File()
    x = file.add("Div", file.add("Sub", "x", np.float32([0.4, 0.5, 0.6])), np.float32([0.2, 0.25, 0.3]))
    x = file.add("Conv", file.transposed(x, FIRST), file.weights(5, 3, 3, 3), pads=[1, 1, 1, 1])
    x = file.add("MaxPool", file.add("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    return file, file.add("Softmax", file.end(file.transposed(x, LAST), 80))


def around_each_layer():
    file = File()
    x = file.add("Add", file.conv("x", 3, 6, pads=[1, 1, 1, 1]), np.float32(file.random.normal(size=(1, 1, 1, 6))))
    x = file.add("Mul", x, file.add("Sigmoid", x))
    y = file.conv(file.add("Pad", x, np.array([0, 1, 0, 0, 0, 2, 1, 0])), 6, 6, pads=[0, 1, 0, 1])
    y = file.transposed(file.add("MaxPool", file.transposed(y, FIRST), kernel_shape=[2, 2]), LAST)
    y = file.conv(y, 6, 6, pads=[2, 1, 1, 2], strides=[1, 1])
    z = file.add("Add", file.add("Concat", y, y, axis=3), file.weights(12))
    return file, file.end(file.add("ReduceMean", z, axes=[1, 2], keepdims=0), 12)


def dense_pixels():
    file = File()
    x = file.add("Relu", file.add("Add", file.add("MatMul", file.conv("x", 3, 6), file.weights(6, 5)), file.weights(5)))
    gate = file.add("Sigmoid", file.add("MatMul", file.add("ReduceMean", x, axes=[1, 2], keepdims=1), file.weights(5, 5)))
    return file, file.end(file.add("Mul", x, gate), 180)


def dense_of_rows():
    """As Keras calls a dense layer of images: with shapes that it computes of their number."""
    file = File()
    x = file.add("Relu", file.conv("x", 3, 6))
    shape = file.add("Cast", file.add("Shape", x), to=TensorProto.INT32)
    count = file.add("ReduceProd", file.add("Gather", shape, np.array([0, 1, 2]), axis=0), axes=[0], keepdims=0)
    rows = file.add("Concat", file.add("Unsqueeze", count, np.array([0])), np.int32([6]), axis=0)
    image = file.add("Concat", file.add("Gather", shape, np.array([0, 1, 2]), axis=0), np.int32([5]), axis=0)
    x = file.add("MatMul", file.add("Reshape", x, file.add("Cast", rows, to=TensorProto.INT64)), file.weights(6, 5))
    x = file.add("Reshape", x, file.add("Cast", image, to=TensorProto.INT64))
    return file, file.end(file.add("Add", x, file.weights(5)), 180)


def padded_pools():
    """As Keras pads before it pools: zeros, which count in means, and below which no rectified number is."""
    file = File()
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    x = file.add("Pad", file.add("Relu", file.transposed(file.conv("x", 3, 6), FIRST)), pads, np.float32(0))
    x = file.add("Pad", file.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2]), pads)
    x = file.add("AveragePool", x, kernel_shape=[2, 2], count_include_pad=1)
    return file, file.end(file.transposed(x, LAST), 96)


def numbers_read_twice():
    """What is added to them is no bias of the layer."""
    file = File()
    x = file.transposed(file.add("Conv", file.transposed("x", FIRST), file.weights(6, 3, 3, 3)), LAST)
    return file, file.end(file.add("Mul", x, file.add("Add", x, file.weights(6))), 216)


def normalized():
    file = File()
    x = file.transposed(file.conv("x", 3, 6), FIRST)
    x = file.add("BatchNormalization", x, *(np.float32(file.random.uniform(0.5, 1.5, 6)) for _ in range(4)))
    x = file.transposed(x, LAST)
    x = file.add("LayerNormalization", x, file.weights(6), file.weights(6), axis=-1)
    x = file.transposed(file.add("GlobalAveragePool", file.transposed(x, FIRST)), LAST)
    return file, file.end(file.add("Squeeze", x, np.array([1, 2])), 6)


def no_transpose():
    file = File()
    return file, file.add("Gemm", file.add("Flatten", "x"), file.weights(192, 5))


def of_bytes():
    file = File(element=TensorProto.UINT8)
    x = file.add("Mul", file.add("Cast", "x", to=TensorProto.FLOAT), np.float32(1 / 255))
    return file, file.end(file.conv(x, 3, 6), 216)


def cropped():
    file = File(("n", 12, 12, 3))
    x = file.add("Slice", "x", np.array([2, 2]), np.array([10, 10]), np.array([1, 2]))
    return file, file.end(file.conv(x, 3, 6), 216)


def grey():
    file = File((1, 8, 8, 1))
    return file, file.end(file.conv("x", 1, 6), 216)


def one_pixel():
    """With one pixel left, the channels' axis alone counts."""
    file = File()
    x = file.add("GlobalAveragePool", file.transposed(file.conv("x", 3, 6), FIRST))
    return file, file.end(file.transposed(x, [0, 3, 2, 1]), 6)


def three_by_three(last=True):
    """The sizes do not tell where the channels are."""
    file = File(("n", 3, 3, 3))
    x = file.transposed("x", FIRST) if last else "x"
    return file, file.end(file.add("Relu", file.add("Conv", x, file.weights(6, 3, 2, 2))), 24)


def three_by_three_first():
    return three_by_three(False)


def test_channels_last(test):
    for make in (one_transpose, around_each_layer, dense_pixels, normalized, no_transpose, of_bytes, cropped, grey, one_pixel,
                 dense_of_rows, padded_pools, numbers_read_twice, three_by_three, three_by_three_first):
        file, output = make()
        path = test.path("last.onnx")
        onnx.save(file.model(output), path)
        name = make.__name__
        try:
            imported = import_onnx(path, check=False)
        except Exception as error:
            test.check(False, f"channels last, {name}: {type(error).__name__}: {error}")
            continue

        def outputs(pictures):
            images = pictures if file.element == TensorProto.UINT8 else np.float32(pictures / 255)
            if make is three_by_three_first:
                images = images.transpose(0, 3, 1, 2)
            model = ReferenceEvaluator(file.model(output))
            return [np.concatenate([model.run(None, {"x": image[None]})[0] for image in images])]

        try:
            imported.check(outputs)
        except Exception as error:
            imported.off = error
        test.check(isinstance(imported.off, float) and imported.off < 1e-5, f"channels last, {name}: off by {imported.off}")
    file, output = one_transpose()
    onnx.save(file.model(output), test.path("last.onnx"))
    without = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "onnxruntime"}
    sys.modules["onnxruntime"] = None
    notes = import_onnx(test.path("last.onnx")).notes
    sys.modules.pop("onnxruntime")
    sys.modules.update(without)
    test.check("nothing was checked by numbers: onnxruntime is not installed; pip install onnxruntime" in notes,
               "without onnxruntime, a line says that nothing was checked")
    file.sizes = ("n", "h", "w", 3)
    onnx.save(file.model(output), test.path("last.onnx"))
    test.refuses("an open size", "--shape", lambda: import_onnx(test.path("last.onnx")))
    test.check(import_onnx(test.path("last.onnx"), shape=(8, 8, 3)).network.input_shape == (8, 8, 3), "its size is given")
    file = File()
    x = file.add("Pad", file.transposed(file.conv("x", 3, 6), FIRST), np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    onnx.save(file.model(file.end(file.add("MaxPool", x, kernel_shape=[8, 8]), 6)), test.path("last.onnx"))
    test.refuses("zeros above negative numbers", "the zeros of a Pad", lambda: import_onnx(test.path("last.onnx")))
    for what in (np.float32(1), "x"):
        file = File()
        x = file.add("Pad", file.conv("x", 3, 6), np.array([0, 1, 1, 0, 0, 1, 1, 0]), what)
        onnx.save(file.model(file.end(x, 384)), test.path("last.onnx"))
        test.refuses(f"a Pad with {what}", "recipes pad with zeros", lambda: import_onnx(test.path("last.onnx"), check=False))
    file = File()
    onnx.save(file.model(file.add("Conv", "x", file.weights(4, 8, 3, 3))), test.path("last.onnx"))
    test.refuses("a layer over moved axes", "move the channels back", lambda: import_onnx(test.path("last.onnx")))
