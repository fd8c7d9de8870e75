"""The command line: python -m towers.importing MODEL --out NAME"""

import argparse
import ast
import importlib
import importlib.util
import math
import os
import sys
import warnings

from . import NotExpressible, files, import_onnx, import_torch

DESCRIPTION = """\
Makes a recipe of towers, NAME.toml, and the variables to start from, NAME.safetensors, out of a model.

MODEL is an ONNX file, or what makes a torch.nn.Module: PACKAGE:CALL or FILE.py:CALL, such as
  torchvision.models:resnet18
  torchvision.models:resnet18(weights='IMAGENET1K_V1')
  mynet.py:Net(width=32)"""


class CannotImport(Exception):
    """One line for the user."""


def numbers(text):
    try:
        found = [float(each) for each in text.split(",")]
        if not all(map(math.isfinite, found)):
            raise ValueError
        return found
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}': give numbers with commas, such as 0.485,0.456,0.406") from None


def size(text):
    try:
        height, width, channels = (int(each) for each in text.replace("x", ",").split(","))
    except ValueError:
        height = width = channels = 0
    if min(height, width, channels) < 1 or max(height, width, channels) > 1 << 16:
        raise argparse.ArgumentTypeError(f"'{text}': give height, width and channels, such as 224,224,3")
    return height, width, channels


def positive(text):
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= 1 << 20:
        raise argparse.ArgumentTypeError(f"'{text}': give a number from 1 to {1 << 20}")
    return number


def literal_arguments(text, model):
    """The arguments of a call that takes literals only."""
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        return ([ast.literal_eval(each) for each in call.args],
                {each.arg: ast.literal_eval(each.value) for each in call.keywords})
    except (SyntaxError, ValueError, TypeError, AttributeError):
        raise CannotImport(f"{model}: '({text})' are no arguments; give literals, such as (width=32)") from None


def make_module(model):
    """The module that PACKAGE:CALL or FILE.py:CALL makes."""
    place, _, call = model.partition(":")
    name, bracket, rest = call.partition("(")
    if bracket and not rest.endswith(")"):
        raise CannotImport(f"{model}: the bracket is not closed")
    positional, named = literal_arguments(rest[:-1], model) if bracket else ([], {})
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(os.path.basename(place)[:-3], place)
            package = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, package)  # where dataclasses look for it
            sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
            spec.loader.exec_module(package)
        else:
            package = importlib.import_module(place)
    except FileNotFoundError:
        raise CannotImport(f"{place}: there is no such file") from None
    except Exception as error:  # whatever the user's own code raises
        raise CannotImport(f"{place}: cannot be loaded: {type(error).__name__}: {one_line(error)}") from error
    if not hasattr(package, name):
        raise CannotImport(f"{place} has no '{name}'")
    try:
        made = getattr(package, name)
        return made(*positional, **named) if callable(made) and not is_module(made) else made
    except Exception as error:
        raise CannotImport(f"{model} fails: {type(error).__name__}: {one_line(error)}") from error


def is_module(thing):
    import torch

    return isinstance(thing, torch.nn.Module)


def one_line(error):
    return " ".join(str(error).split())[:300]


def load_weights(module, path):
    """Fills the module from a state dict's file."""
    import torch

    try:
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
        state = state.get("state_dict", state)
        module.load_state_dict(state)
    except FileNotFoundError:
        raise CannotImport(f"{path}: there is no such file") from None
    except ImportError as error:
        raise CannotImport(f"{path}: {error}; pip install safetensors") from error
    except Exception as error:  # of any kind: the file may hold anything
        raise CannotImport(f"{path}: does not fit the module: {one_line(error)}") from error


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m towers.importing", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--out", metavar="NAME", help="write NAME.toml and NAME.safetensors (default: the model's name)")
    parser.add_argument("--force", action="store_true", help="replace these files")
    parser.add_argument("--shape", type=size, metavar="H,W,C",
                        help="size of the images (default: the ONNX file's; 224,224,3 for a module)")
    parser.add_argument("--weights", metavar="FILE", help="a module's state dict, .pt or .safetensors")
    parser.add_argument("--mean", type=numbers, metavar="M,...", help="the model takes (byte / 255 - mean) / deviation "
                        "(default: 0; torchvision's of ImageNet for its own models)")
    parser.add_argument("--deviation", type=numbers, metavar="D,...", help="see --mean (default: 1)")
    parser.add_argument("--bytes", action="store_true", help="the model takes bytes, 0 to 255, as they are")
    parser.add_argument("--group", type=positive, default=32, metavar="N",
                        help="examples that share a batch norm's statistics in training (default: 32)")
    return parser, parser.parse_args(arguments)


def import_model(arguments):
    mean, deviation = arguments.mean, arguments.deviation
    if arguments.bytes:
        mean, deviation = [0.0], [1 / 255]
    if deviation is not None and min(deviation) <= 0:
        raise CannotImport("--deviation: give numbers above 0")
    common = {"group": arguments.group}
    if arguments.model.lower().endswith(".onnx") or ":" not in arguments.model:
        if arguments.weights:
            raise CannotImport("--weights: an ONNX file has its own")
        return import_onnx(arguments.model, shape=arguments.shape, mean=mean, deviation=deviation, **common)
    shape = arguments.shape or (224, 224, 3)
    if mean is None and deviation is None and arguments.model.startswith("torchvision.models") and shape[2] == 3:
        mean, deviation = files.IMAGENET
    module = make_module(arguments.model)
    if not is_module(module):
        raise CannotImport(f"{arguments.model}: is a {type(module).__name__}, not a torch.nn.Module")
    if arguments.weights:
        load_weights(module, arguments.weights)
    return import_torch(module.train(), shape, mean=mean or 0.0, deviation=deviation or 1.0, **common)


def main(arguments=None):
    warnings.simplefilter("ignore")
    parser, given = parse(arguments)
    if given.bytes and (given.mean or given.deviation):
        parser.error("--bytes: --mean and --deviation say otherwise")
    name = given.out or os.path.splitext(os.path.basename(given.model.rpartition(":")[2].partition("(")[0]))[0]
    try:
        for path in (f"{name}.toml", f"{name}.safetensors"):
            if os.path.exists(path) and not given.force:
                raise CannotImport(f"{path}: exists; give another --out, or --force")
        imported = import_model(given)
        recipe, variables = imported.save(name)
    except (NotExpressible, CannotImport) as error:
        text = str(error)
        if isinstance(error, NotExpressible) and not text.startswith(given.model):
            text = f"{given.model}: {text}"
        print(f"towers.importing: {one_line(text)}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        print(f"towers.importing: {given.model}: needs the Python package '{error.name}'; pip install {error.name}",
              file=sys.stderr)
        return 1
    except OSError as error:
        print(f"towers.importing: {error.filename or given.model}: {error.strerror or one_line(error)}", file=sys.stderr)
        return 1
    except MemoryError:
        print(f"towers.importing: {given.model}: there is not enough memory", file=sys.stderr)
        return 1
    for note in imported.notes:
        print(f"note: {note}")
    count = sum(each.size for key, each in imported.variables.items() if "/moving_" not in key)
    print(f"{recipe}: {len(imported.network.layers)} layers, {imported.network.classes} classes; {variables}: {count} parameters")
    print(f"fine-tune with: towers train --recipe {recipe} --init {variables} --data FOLDER --set input.classes=N")
    return 0


if __name__ == "__main__":
    sys.exit(main())
