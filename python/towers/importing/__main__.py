"""The command line: python -m towers.importing MODEL --out NAME"""

import argparse
import ast
import difflib
import importlib
import importlib.util
import math
import os
import pkgutil
import sys
import warnings

from .errors import CannotImport, NotExpressible, plain
from .weights import holds_weights, load_weights, read

DESCRIPTION = """\
Makes a recipe of towers, NAME.toml, and the variables to start from, NAME.safetensors, out of a model.

MODEL is an ONNX file, or what makes a torch.nn.Module: PACKAGE:CALL or FILE.py:CALL, such as
  torchvision.models:resnet18
  torchvision.models:resnet18(weights='IMAGENET1K_V1')
  mynet.py:Net(width=32)"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        message = message.removeprefix("argument ").replace(": '", " '", 1)
        self.exit(2, f"towers.importing: {plain(message)}; see '{self.prog} --help'\n")


def but_there_is(name, names, prefix=""):
    """", but there is 'Y'", the name that was perhaps meant; or nothing. All names have the prefix, which is not compared."""
    by_lower = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.removeprefix(prefix).lower(), by_lower, 1)
    return f", but there is '{prefix}{by_lower[near[0]]}'" if near else ""


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
    if place.endswith(".py"):
        open(place, "rb").close()  # fails for its own reasons, and what is below for those of the code
        if not name:
            raise CannotImport(offer(place))
    elif not name or not place or os.sep in place:
        raise CannotImport(f"{model}: give what makes a module, as in torchvision.models:resnet18 or mynet.py:Net")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(os.path.basename(place)[:-3], place)
            package = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, package)  # where dataclasses look for it
            sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
            spec.loader.exec_module(package)
        else:
            package = importlib.import_module(place)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        if isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            raise CannotImport(f"{place}: {no_package(error.name)}") from None
        raise CannotImport(f"{place}: cannot be loaded: {type(error).__name__}: {plain(error, 300)}") from error
    if not hasattr(package, name):
        public = [each for each, what in vars(package).items() if callable(what) and each[0] != "_"]
        raise CannotImport(f"{place}: there is no '{name}'{but_there_is(name, public)}")
    made = getattr(package, name)
    if is_module(made) or not callable(made):
        return made
    try:
        return made(*positional, **named)
    except (Exception, SystemExit) as error:
        raise CannotImport(f"{model} fails: {type(error).__name__}: {plain(error, 300)}") from error


def no_package(name):
    """Why a Python package cannot be imported, with the nearest of those that can."""
    parent = name.rpartition(".")[0]
    places = getattr(sys.modules[parent], "__path__", []) if parent else None
    beside = [each.name for each in pkgutil.iter_modules(places)]
    meant = but_there_is(name, beside, f"{parent}." if parent else "")
    return f"there is no Python package '{name}'{meant or ('' if parent else '; install it')}"


def offer(path):
    """What to give in place of a Python file alone. Runs none of its code."""
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read(), path).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotImport(f"{path}: cannot be read as Python: {error}") from None
    classes, names = [], []  # names: of classes, functions that return something, and what those or Sequential() make
    for node in body:
        if isinstance(node, ast.ClassDef) and node.bases and node.name[0] != "_":
            classes.append(node.name)
            names.append(node.name)
        elif isinstance(node, ast.FunctionDef) and any(isinstance(each, ast.Return) and each.value for each in ast.walk(node)):
            names.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            made_by = node.value.func  # NAME or PACKAGE.NAME
            if getattr(made_by, "attr", getattr(made_by, "id", "")) in [*names, "Sequential"]:
                names.append(node.targets[0].id)
    names = [each for each in names if each[0] != "_"]
    if not names:
        return f"{path}: give FILE.py:NAME; this file has no class, and no function, that could make a module"
    example = (classes or names)[-1]  # a file's network mostly comes after its parts
    return f"{path}: say what in it makes the module, as in {path}:{example}; it has {', '.join(names[:10])}"


def is_module(thing):
    import torch

    return isinstance(thing, torch.nn.Module)


def check_output(paths, force):
    """Fails before the work if the files cannot be there."""
    folder = os.path.dirname(paths[0])
    try:
        os.stat(os.path.join(folder, "."))
    except FileNotFoundError:
        raise CannotImport(f"{folder}: there is no such folder; make it, or give another --out") from None
    except OSError as error:
        raise CannotImport(f"{folder}: {error.strerror}; give another --out") from None
    for path in paths:
        try:
            os.lstat(path)
        except FileNotFoundError:
            continue
        if not force:
            raise CannotImport(f"{path}: exists; give another --out, or --force")


def parse(arguments):
    parser = Parser(prog="python -m towers.importing", description=DESCRIPTION, allow_abbrev=False,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--out", metavar="NAME", help="write NAME.toml and NAME.safetensors (default: the model's name)")
    parser.add_argument("--force", action="store_true", help="replace these files")
    parser.add_argument("--shape", type=size, metavar="H,W,C",
                        help="size of the images (default: the ONNX file's; 224,224,3 for a module)")
    parser.add_argument("--weights", metavar="FILE", help="a module's state dict, .pt or .safetensors; FILE:KEY if it has "
                        "several")
    parser.add_argument("--mean", type=numbers, metavar="M,...", help="the model takes (byte / 255 - mean) / deviation "
                        "(default: 0; torchvision's of ImageNet for its own models)")
    parser.add_argument("--deviation", type=numbers, metavar="D,...", help="see --mean (default: 1)")
    parser.add_argument("--bytes", action="store_true", help="the model takes bytes, 0 to 255, as they are")
    parser.add_argument("--group", type=positive, default=32, metavar="N",
                        help="examples that share a batch norm's statistics in training (default: 32)")
    parser.add_argument("--no-check", action="store_true",
                        help="do not compare what the model and the program make of random pictures")
    given, unknown = parser.parse_known_args(arguments)
    unknown = [word for word in unknown if word != "--"]
    for word in unknown:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            flags = [each.replace("_", "-") for each in vars(given) if each != "model"]
            if flag[2:] in flags:
                parser.error(f"{flag}: give it before '--'")
            parser.error(f"there is no flag '{flag}'{but_there_is(flag, flags, '--')}")
    if unknown:
        parser.error(f"'{unknown[0]}' does not belong to any flag")
    if given.bytes and (given.mean or given.deviation):
        parser.error("--bytes: --mean and --deviation say otherwise")
    if given.out and os.path.basename(given.out) in ("", ".", ".."):
        parser.error(f"--out '{given.out}': give a name, such as {os.path.join(given.out, 'net')}")
    return given


def import_model(arguments):
    mean, deviation = arguments.mean, arguments.deviation
    if arguments.bytes:
        mean, deviation = [0.0], [1 / 255]
    if deviation is not None and min(deviation) <= 0:
        raise CannotImport("--deviation: give numbers above 0")
    from .imported import import_onnx, import_torch
    from .recipe import IMAGENET

    common = {"group": arguments.group, "check": not arguments.no_check}
    place = arguments.model.partition(":")[0]
    if holds_weights(place):
        if not place.endswith(".safetensors"):
            read(place)
        raise CannotImport(f"{place}: holds weights alone; give also the code that makes the module: "
                           f"MODULE.py:NAME --weights {place}")
    if place.lower().endswith(".onnx") and os.path.isfile(place) and place != arguments.model:
        raise CannotImport(f"{arguments.model}: an ONNX file is a model as it is; give {place}")
    if arguments.model.lower().endswith(".onnx") or (":" not in arguments.model and not place.endswith(".py")):
        if arguments.weights:
            raise CannotImport("--weights: an ONNX file has its own")
        try:
            return import_onnx(arguments.model, shape=arguments.shape, mean=mean, deviation=deviation, **common)
        except FileNotFoundError as error:
            raise CannotImport(f"{arguments.model}: {error.strerror}; give an ONNX file, or what makes a module, as in "
                               "torchvision.models:resnet18 or mynet.py:Net") from None
    shape = arguments.shape or (224, 224, 3)
    if mean is None and deviation is None and arguments.model.startswith("torchvision.models") and shape[2] == 3:
        mean, deviation = IMAGENET
    module = make_module(arguments.model)
    if not is_module(module):
        raise CannotImport(f"{arguments.model}: is a {type(module).__name__}, not a torch.nn.Module")
    notes = load_weights(module, arguments.weights) if arguments.weights else []
    imported = import_torch(module.train(), shape, mean=mean or 0.0, deviation=deviation or 1.0, **common)
    imported.notes[:0] = map(plain, notes)
    return imported


def main(arguments=None):
    warnings.simplefilter("ignore")
    given = parse(arguments)
    is_file = given.model.lower().endswith(".onnx")
    made_by = given.model if is_file else given.model.partition("(")[0].rpartition(":")[2]
    name = given.out or os.path.splitext(os.path.basename(made_by))[0]
    try:
        check_output([f"{name}.toml", f"{name}.safetensors"], given.force)
        imported = import_model(given)
        recipe, variables = imported.save(name)
    except CannotImport as error:
        return fail(error)
    except NotExpressible as error:
        return fail(error if str(error).startswith(given.model) else f"{given.model}: {error}")
    except ModuleNotFoundError as error:
        return fail(f"{given.model}: needs the Python package '{error.name}'; pip install {error.name}")
    except ImportError as error:  # a package that is there, but broken
        return fail(f"{given.model}: {error}")
    except OSError as error:
        return fail(f"{error.filename or given.model}: {error.strerror or error}")
    except MemoryError:
        return fail(f"{given.model}: there is not enough memory")
    for note in imported.notes:
        print(f"note: {note}")
    if imported.off is not None:
        print(f"checked: the outputs of random pictures differ by at most {imported.off:.1g} of the largest number")
    count = sum(each.size for key, each in imported.variables.items() if "/moving_" not in key)
    recipe, variables = plain(recipe), plain(variables)
    print(f"{recipe}: {len(imported.network.layers)} layers, {imported.network.classes} classes; {variables}: {count} parameters")
    print(f"fine-tune with: towers train --recipe {recipe} --init {variables} --data FOLDER --set input.classes=N")
    return 0


def fail(message):
    print(f"towers.importing: {plain(message)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
