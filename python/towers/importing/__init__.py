"""Makes a recipe, and variables to start from, out of a PyTorch module or an ONNX file.

    from towers.importing import import_torch, import_onnx
    imported = import_torch(torchvision.models.resnet18(), (64, 64, 3))
    imported.save("resnet18")    # resnet18.toml and resnet18.safetensors
    # towers train --recipe resnet18.toml --init resnet18.safetensors --set input.classes=10

It needs numpy, import_torch() also torch, and import_onnx() onnx.
"""

import importlib

__all__ = ["Imported", "NotExpressible", "import_onnx", "import_torch"]


def __getattr__(name):
    """Loads what is asked for, so that the command can say that numpy is missing."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.imported"), name)
