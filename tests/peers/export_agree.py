"""Checks that exported models compute what towers computes, in other programs.

export_agree.py TOWERS DUMP_LOGITS [--recipes NAME,...] [--pictures N] [--data DATA] [--steps N] [--keep FOLDER]

Trains each recipe for a few steps, exports its checkpoint, and compares the logits of the same pictures with
onnxruntime's and with those of the exported PyTorch module. onnx.checker must accept the file. The logits may differ by 1e-4 of the largest; and no picture may get
another class, unless its two best logits are closer than that.

Prints a line for each recipe; exits with 1 if one is wrong. `layers` is tests/fixtures/layers.toml, which has every kind
of layer.
"""
import argparse
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
import torch
from safetensors.numpy import load_file, save_file

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fixtures")
RECIPES = ["layers", "mnist-tutorial", "mnist-lenet", "cifar10-tutorial", "cifar10-resnet20", "cifar10-fast",
           "imagenet-resnet18", "imagenet-resnet50", "vgg16-bn", "mobilenet-v2", "densenet121", "efficientnet-b0",
           "inception-v3"]
TOLERANCE = 1e-4  # of the largest logit


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def train(towers, name, run_folder, arguments):
    """Moves batch norm's statistics and every variable away from where they start."""
    recipe = name
    if name == "layers":  # for the ten classes of shapes
        recipe = run_folder + ".toml"
        with open(os.path.join(FIXTURES, "layers.toml")) as source, open(recipe, "w") as copy:
            copy.write(source.read().replace("classes = 7", "classes = 10").replace("units = 7", "units = 10"))
    batch = "4" if name == "layers" else "64" if small(name) else arguments.batch
    changes = [] if small(name) else ["--set", "defaults.batch_norm.group=" + arguments.batch]
    if name == "vgg16-bn" or name == "inception-v3":
        changes += ["--set", "optimizer.learning_rate=0.001"]
    run(towers, "train", "--towers", arguments.device, "--recipe", recipe, "--run", run_folder, "--steps",
        str(arguments.steps), "--batch", batch, "--data", arguments.data, *changes)


def small(name):
    return name.startswith(("layers", "mnist", "cifar10"))


def pictures_of(shape, count):
    """Noise, smoothed to several degrees, so that pictures differ in more than their pixels."""
    random = numpy.random.default_rng(1)
    batch, channels, height, width = count, *shape
    images = numpy.empty((batch, channels, height, width), numpy.float32)
    for i in range(batch):
        coarse = 2 ** random.integers(1, 6)
        base = random.random((channels, min(coarse, height), min(coarse, width)))
        rows = numpy.arange(height) * base.shape[1] // height
        columns = numpy.arange(width) * base.shape[2] // width
        images[i] = base[:, rows][:, :, columns] * random.uniform(0.2, 1) + random.random((channels, 1, 1)) * 0.3
    images += random.normal(0, 0.05, images.shape)
    return numpy.clip(numpy.round(images * 200), 0, 255).astype(numpy.uint8)


def compare(what, logits, ours):
    """A text, and whether the logits agree."""
    scale = numpy.abs(ours).max()
    off = numpy.abs(logits - ours).max() / scale
    best = numpy.sort(ours, 1)
    clear = best[:, -1] - best[:, -2] > TOLERANCE * scale
    same = logits.argmax(1) == ours.argmax(1)
    right = bool(off < TOLERANCE and same[clear].all() and numpy.isfinite(logits).all())
    return f"{what} off by {off:.1e}, the same class for {same.sum()} of {len(ours)}", right


def check_onnx(path, images, ours):
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    logits, probabilities = [], []
    for first in range(0, len(images), 7):  # batches of two sizes
        results = session.run(["logits", "probabilities"], {"images": images[first:first + 7]})
        logits.append(results[0])
        probabilities.append(results[1])
    logits, probabilities = numpy.concatenate(logits), numpy.concatenate(probabilities)
    powers = numpy.exp(logits - logits.max(1, keepdims=True))
    text, right = compare("onnxruntime", logits, ours)
    return text, right and numpy.allclose(probabilities, powers / powers.sum(1, keepdims=True), atol=1e-5)


def check_torch(path, run_folder, images, ours):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Model().load(sorted(glob.glob(run_folder + "/model.ckpt-*"), key=os.path.getmtime)[-1]).eval()
    with torch.no_grad():
        logits = torch.cat([model(module.prepare(part)) for part in torch.from_numpy(images).split(50)])
    return compare("PyTorch", logits.numpy(), ours)


def check(name, arguments, folder):
    began = time.monotonic()
    path = {what: os.path.join(folder, f"{name}-{what}") for what in ("run", "images", "logits", "model.onnx", "model.py")}
    if not os.path.exists(path["run"]):
        train(arguments.towers, name, path["run"], arguments)
    run(arguments.towers, "export", path["run"], "--onnx", path["model.onnx"], "--torch", path["model.py"])
    model = onnx.load(path["model.onnx"], load_external_data=False)
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    images = load_file(arguments.images)["images"].astype(numpy.uint8) if arguments.images else pictures_of(
        shape, arguments.pictures or (64 if small(name) else 8))
    save_file({"images": images.astype(numpy.float32)}, path["images"])
    run(arguments.dump_logits, path["run"], path["images"], arguments.device, str(min(len(images), 50)), path["logits"])
    ours = load_file(path["logits"])["logits"]
    text, right = check_onnx(path["model.onnx"], images, ours)
    torch_text, torch_right = check_torch(path["model.py"], path["run"], images, ours)
    right = right and torch_right
    print(f"{name}: {'x'.join(map(str, shape))}, {text}; {torch_text}; {time.monotonic() - began:.0f} s: "
          f"{'agrees' if right else 'WRONG'}", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("towers")
    parser.add_argument("dump_logits", help="the program of that name, built with the tests")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--pictures", type=int, help="how many (default: 64 small or 8 large ones)")
    parser.add_argument("--images", help="safetensors with images [N, channels, height, width], in place of noise")
    parser.add_argument("--data", default="shapes", help="to train on (default: shapes)")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", default="8", help="of the ImageNet recipes' training (default: 8)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", help="folder for runs and models; a run that is there is not trained again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        os.makedirs(folder, exist_ok=True)
        results = [check(name, arguments, folder) for name in arguments.recipes.split(",")]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
