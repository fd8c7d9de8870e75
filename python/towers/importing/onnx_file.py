"""Reads an ONNX file: nodes and constants, checked as far as a file from anywhere needs it."""

import math
import os
import stat

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from .errors import CannotCheck, NotExpressible

MOST_NODES = 100_000
TYPES = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16,
         onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.UINT8, onnx.TensorProto.BOOL}


class Node:
    """name: of the node, or of its output if it has none; attributes: as Python values."""

    def __init__(self, proto):
        self.kind, self.inputs, self.outputs = proto.op_type, list(proto.input), list(proto.output)
        self.name = proto.name or (self.outputs[0] if self.outputs else "")
        if proto.domain not in ("", "ai.onnx"):
            self.kind = f"{proto.domain}.{proto.op_type}"
        self.attributes = {each.name: attribute(each, self) for each in proto.attribute}

    def __str__(self):
        return f"'{self.name}' ({self.kind})"


def attribute(proto, node):
    kinds = onnx.AttributeProto
    if proto.type == kinds.TENSOR:
        return array_of(proto.t, f"{node}, attribute '{proto.name}'")
    if proto.type in (kinds.GRAPH, kinds.GRAPHS):
        raise NotExpressible(f"{node} has a graph of its own; recipes have no branches that depend on values")
    try:
        value = onnx.helper.get_attribute_value(proto)
    except ValueError:
        raise NotExpressible(f"{node}: its attribute '{proto.name}' has no value") from None
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def array_of(tensor, what):
    """The tensor's values."""
    if any(size < 0 for size in tensor.dims):
        raise NotExpressible(f"{what} has the shape {list(tensor.dims)}; the file is damaged")
    elements = math.prod(tensor.dims)
    if tensor.data_type not in TYPES:
        raise NotExpressible(f"{what} has numbers of type {onnx.TensorProto.DataType.Name(tensor.data_type)}"
                             if tensor.data_type in onnx.TensorProto.DataType.values() else f"{what} has numbers of no known type")
    given = len(tensor.raw_data) or max(len(tensor.float_data), len(tensor.int64_data), len(tensor.int32_data),
                                        len(tensor.double_data), len(tensor.uint64_data))
    if elements > max(given, 0) or (elements and not given):
        raise NotExpressible(f"{what} has the shape {list(tensor.dims)[:8]}, but fewer values; the file is damaged")
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise NotExpressible(f"{what}: {' '.join(str(error).split())[:120]}; the file is damaged") from None


class OnnxFile:
    """nodes, in their order; constants: by name; inputs: name -> (element type, shape with None for what is open);
    outputs: names; operators: version of the standard operators."""

    def __init__(self, path):
        self.path = os.fspath(path)
        if os.path.exists(path) and not os.path.isfile(path):
            raise NotExpressible("is no regular file")
        try:  # the format, since the file's name would decide otherwise
            model = onnx.load(os.fspath(path), format="protobuf", load_external_data=False)
        except DecodeError:
            raise NotExpressible("is no ONNX file, or cut short") from None
        if not model.HasField("graph") or not model.graph.node:
            raise NotExpressible("is no ONNX file, or has an empty graph")
        if len(model.graph.node) > MOST_NODES:
            raise NotExpressible(f"has {len(model.graph.node)} nodes; at most {MOST_NODES} are read")
        self.load_external(model, os.path.dirname(os.path.abspath(path)))
        graph = model.graph
        self.operators = max([each.version for each in model.opset_import if each.domain in ("", "ai.onnx")], default=1)
        if graph.sparse_initializer:
            raise NotExpressible("has sparse tensors; dense ones are possible")
        if model.functions:
            raise NotExpressible("has functions of its own; onnx.inliner.inline_local_functions() takes them apart")
        self.constants = {each.name: array_of(each, f"tensor '{each.name}'") for each in graph.initializer}
        self.inputs = {each.name: self.input_of(each) for each in graph.input if each.name not in self.constants}
        self.outputs = [each.name for each in graph.output]
        self.nodes = [Node(each) for each in graph.node]
        if not self.outputs:
            raise NotExpressible("has no output")

    def outputs_of(self, images):
        """What onnxruntime computes of float32 images. Raises CannotCheck."""
        try:
            import onnxruntime
        except ImportError as error:
            raise CannotCheck("onnxruntime is not installed; pip install onnxruntime") from error
        (name, (element, sizes)), = self.inputs.items()
        if element not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.UINT8):
            raise CannotCheck("the file computes with less than float32's digits")
        images = images.astype(onnx.helper.tensor_dtype_to_np_dtype(element))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(self.path, options, ["CPUExecutionProvider"])
            once = sizes[0] or len(images)  # a file may have a fixed number of images
            parts = [np.resize(images[i:i + once], (once, *images.shape[1:])) for i in range(0, len(images), once)]
            results = [session.run(self.outputs, {name: part}) for part in parts]
        except Exception as error:  # of many kinds
            raise CannotCheck(f"onnxruntime: {' '.join(str(error).split())[:300]}") from error
        return [np.concatenate(each)[:len(images)] for each in zip(*results)]

    @staticmethod
    def load_external(model, folder):
        external = [each for each in model.graph.initializer if each.data_location == onnx.TensorProto.EXTERNAL]
        for tensor in external:
            where = {each.key: each.value for each in tensor.external_data}.get("location", "")
            path = os.path.normpath(os.path.join(folder, where))
            if not where or "\0" in where or os.path.isabs(where) or os.path.relpath(os.path.realpath(path), os.path.realpath(folder)).startswith(".."):
                raise NotExpressible(f"tensor '{tensor.name}' is in '{where}', outside the file's folder")
            try:
                regular = stat.S_ISREG(os.stat(path).st_mode)
            except FileNotFoundError:
                raise NotExpressible(f"tensor '{tensor.name}' is in '{where}', which is not beside the file") from None
            except OSError as error:
                raise NotExpressible(f"tensor '{tensor.name}' is in '{where}': {error.strerror}") from None
            if not regular:
                raise NotExpressible(f"tensor '{tensor.name}' is in '{where}', which is no regular file")
        try:
            onnx.external_data_helper.load_external_data_for_model(model, folder)
        except Exception as error:  # the helper has no kind of its own
            raise NotExpressible(f"its external tensors cannot be read: {' '.join(str(error).split())[:160]}") from None

    @staticmethod
    def input_of(proto):
        tensor = proto.type.tensor_type
        return tensor.elem_type, [each.dim_value if each.HasField("dim_value") else None for each in tensor.shape.dim]
