"""Makes a recipe, and variables to start from, out of a PyTorch module or an ONNX file.

    from towers.importing import import_torch, import_onnx
    imported = import_torch(torchvision.models.resnet18(), (64, 64, 3))
    imported.save("resnet18")    # resnet18.toml and resnet18.safetensors
    # towers train --recipe resnet18.toml --init resnet18.safetensors --set input.classes=10

Importing this module needs numpy only; import_torch() needs torch, import_onnx() needs onnx.
"""

import os

import numpy as np

from . import files
from .recipe import NotExpressible

__all__ = ["Imported", "NotExpressible", "import_onnx", "import_torch"]


class Imported:
    """A model as a recipe. `text`: the recipe; `variables`: by name, arrays as docs/recipes.md says; `notes`: lines about
    what is not as in the model."""

    def __init__(self, network, pipeline, *, description, batch=32, head_weights=None, footer=None):
        self.network, self.notes = network, network.notes
        self.variables = network.values
        for name, array in self.variables.items():
            if not np.isfinite(array).all():
                raise NotExpressible(f"variable '{name}' has numbers that are not finite")
        self.text = network.text(description=description, weights=head_weights,
                                 footer=files.footer(pipeline, batch) if footer is None else footer)

    def save(self, name):
        """Writes NAME.toml and NAME.safetensors, and returns their paths."""
        paths = f"{name}.toml", f"{name}.safetensors"
        files.write(paths[1], files.safetensors(self.variables))
        files.write(paths[0], self.text.encode())
        return paths


def import_torch(module, shape, *, mean=0.0, deviation=1.0, group=32, batch=None, head_weights=None, description=None):
    """shape: height, width and channels of the images. The module gets (byte / 255 - mean) / deviation, by channel.
    group: how many examples share a batch norm's statistics in training. Traces the module in its present mode, so in
    train() mode to keep dropout. Raises NotExpressible."""
    from . import from_torch

    network, (scale, shift) = from_torch.network_of(module, shape, group)
    pipeline = files.Pipeline(mean, deviation, shape[2]).then(scale, shift)
    return Imported(network, pipeline, batch=batch or group, head_weights=head_weights,
                    description=description or f"{type(module).__name__}, from PyTorch")


def import_onnx(path, *, shape=None, mean=None, deviation=None, group=32, batch=None, description=None):
    """As import_torch(). shape: if the file leaves the images' size open. Without mean and deviation, the model takes
    bytes, 0 to 255, if it begins with a normalization of such, else numbers from 0 to 1."""
    from . import from_onnx

    network, (scale, shift), bytes_in, boxes = from_onnx.network_of(path, shape, group)
    if mean is None and deviation is None:
        mean, deviation = 0.0, 1 / 255 if bytes_in else 1.0
        if bytes_in == "guessed":
            network.note("takes pictures as bytes, 0 to 255, as its own normalization says; --mean and --deviation say otherwise")
    pipeline = files.Pipeline(0.0 if mean is None else mean, 1.0 if deviation is None else deviation,
                              network.input_shape[2]).then(scale, shift)
    pipeline.kind, pipeline.training, pipeline.evaluation = boxes
    name = os.path.splitext(os.path.basename(os.fspath(path)))[0]
    return Imported(network, pipeline, batch=batch or group, description=description or f"{name}, from ONNX")
