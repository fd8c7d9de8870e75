"""A model as a recipe with its variables: read, checked and written."""

import functools
import json
import os

from . import files, recipe
from .check import off_by
from .errors import CannotCheck, Differs, NotExpressible, plain


__all__ = ["Imported", "NotExpressible", "import_onnx", "import_torch"]


class Imported:
    """A model as a recipe. `text`: the recipe; `variables`: by name, arrays as docs/recipes.md says; `notes`: lines about
    what is not as in the model, or was not checked; `off`: by how much of the largest logit the program's logits of random
    pictures are off, None if that was not checked."""

    def __init__(self, network, pipeline, stored, *, description, batch=32, head_weights=None, footer=None):
        """stored: height, width and channels of the pictures that the model takes."""
        network.check_complete()
        self.network, self.notes, self.off = network, network.notes, None
        self.variables, self.stored = network.values, stored
        self._written = {"description": description, "weights": head_weights,
                         "footer": recipe.footer(pipeline, batch) if footer is None else footer}
        self.text = self.text_of(0)

    def text_of(self, first):
        """The recipe that is evaluated with this head."""
        return recipe.text(self.network, first=first, **self._written)

    def check(self, outputs, in_training=None):
        """Compares the program's logits with the model's `outputs` of random pictures, [pictures, height, width, channels];
        where they differ, with those of its computation `in_training`, if that may be another. Raises NotExpressible if
        they differ."""
        try:
            self.off = off_by(self, outputs)
        except CannotCheck as reason:
            self.notes.append(plain(f"nothing was checked by numbers: {reason}"))
        except Differs as difference:
            if in_training is None:
                raise
            try:
                self.off = off_by(self, in_training)
            except (NotExpressible, CannotCheck):
                raise difference from None
            self.notes.append("in eval mode the module computes something else than in training, as by `if self.training`; the "
                              "recipe has what it computes in training; import_torch(module.eval(), ...) imports the other")

    def save(self, name):
        """Writes NAME.toml and NAME.safetensors, and returns their paths."""
        paths = f"{name}.toml", f"{name}.safetensors"
        files.write(paths[1], self.data())
        files.write(paths[0], self.text.encode())
        return paths

    def data(self):
        """What NAME.safetensors holds."""
        return files.safetensors(self.variables, {"image": json.dumps(self.stored), "classes": "[]"})


def import_torch(module, shape, *, mean=0.0, deviation=1.0, group=32, batch=None, head_weights=None, description=None,
                 check=True):
    """shape: height, width and channels of the images. The module gets (byte / 255 - mean) / deviation, by channel.
    group: how many examples share a batch norm's statistics in training. Traces the module in its present mode, so in
    train() mode to keep dropout. check: compares what the module, in eval() mode, and the program make of random pictures.
    Raises NotExpressible."""
    from . import from_torch

    given = recipe.Pipeline(mean, deviation, shape[2])
    network, normalization, outputs = from_torch.network_of(module, shape, group)
    imported = Imported(network, given.then(*normalization), shape, batch=batch or group, head_weights=head_weights,
                        description=description or f"{type(module).__name__}, from PyTorch")
    if check:
        of_pictures = lambda pictures, **options: outputs(given.prepared(pictures).transpose(0, 3, 1, 2), **options)
        imported.check(of_pictures, functools.partial(of_pictures, as_traced=True) if module.training else None)
    return imported


def import_onnx(path, *, shape=None, mean=None, deviation=None, group=32, batch=None, description=None, check=True):
    """As import_torch(); it compares with onnxruntime. shape: if the file leaves the images' size open. Without mean and
    deviation, the model takes bytes, 0 to 255, if it begins with a normalization of such, else numbers from 0 to 1."""
    from . import from_onnx

    found = from_onnx.network_of(path, shape, group)
    network, channels = found.network, found.stored[2]
    if mean is None and deviation is None:
        mean, deviation = 0.0, 1 / 255 if found.takes_bytes else 1.0
        if found.takes_bytes == "guessed":
            network.note("takes pictures as bytes, 0 to 255, as its own normalization says; --mean and --deviation say otherwise")
    given = recipe.Pipeline(0.0 if mean is None else mean, 1.0 if deviation is None else deviation, channels)
    pipeline = given.then(*found.normalizes)
    pipeline.kind, pipeline.training, pipeline.evaluation = found.boxes
    name = os.path.splitext(os.path.basename(os.fspath(path)))[0]
    imported = Imported(network, pipeline, found.stored, batch=batch or group, description=description or f"{name}, from ONNX")
    if check:
        imported.check(lambda pictures: found.outputs(given.prepared(pictures)))
    return imported
