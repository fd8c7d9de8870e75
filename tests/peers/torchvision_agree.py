#!/usr/bin/env python3
"""Compares training steps of torchvision's networks in towers with float64 PyTorch's.

Usage: torchvision_agree.py DUMP_STEP [--models A,B] [--builtin] [--devices cpu] ...

The network in train mode, dropout and stochastic depth off, is written as a recipe; its variables are carried over.
Compares the losses of 3 steps of SGD, every gradient of the first, and batch norm's moving statistics after the last.
A gradient may be off by 1e-4. Where a ReLU's input is zero but for rounding, or two values of a max pool's window are
equal but for rounding, the gradient may go either way, and far more than that follows. So it may be off by 1e-3 where
PyTorch's float32, or its float64 with variables moved by a rounding of float32, has a gradient that is off by at least
a third as much. Gradients that are zero but for rounding (of biases before batch norm) are compared with the size of
the same layer's gradient of the weights.
Exit codes: 0, 1 (they disagree).
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import types

import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn

from towers.importing.from_torch import network_of
from towers.importing.recipe import text as recipe_text

STEPS, CLASSES, RATE, SMOOTHING = 3, 1000, 0.001, 0.1
MEAN, DEVIATION = 0.5, 0.25
FOOTER = f"""[pipeline]
values = "normalized"
mean = [{MEAN}, {MEAN}, {MEAN}]
deviation = [{DEVIATION}, {DEVIATION}, {DEVIATION}]

[optimizer]
kind = "sgd"
learning_rate = {RATE}

[training]
batch = 8
steps = {STEPS}
"""


def vgg16_bn():
    model = torchvision.models.vgg16_bn(dropout=0.0)
    model.avgpool = nn.Identity()  # only adapts sizes other than 224x224
    model.classifier[0] = nn.Linear(512 * 2 * 2, 4096)
    return model


def mobilenet_v2():
    return torchvision.models.mobilenet_v2(dropout=0.0)


def efficientnet_b0():
    return torchvision.models.efficientnet_b0(dropout=0.0, stochastic_depth_prob=0.0)


def inception_v3():
    return torchvision.models.inception_v3(aux_logits=True, transform_input=False, init_weights=True, dropout=0.0)


def smooth_inception_v3():
    """Nothing in it is decided by rounding: SiLU in place of ReLU, average in place of max pools."""
    functions = vars(torch.nn.functional)
    torchvision.models.inception.F = types.SimpleNamespace(
        **{**functions, "relu": functions["silu"], "max_pool2d": functions["avg_pool2d"]})
    model = inception_v3()
    model.maxpool1 = model.maxpool2 = nn.AvgPool2d(3, 2)
    return model


# name: (maker, image size, batch, weights of the heads, seed, distance of ReLU's typical input from zero)
MODELS = {
    "resnet18": (torchvision.models.resnet18, 64, 8, (1.0,), 1, 2.5),
    "resnet50": (torchvision.models.resnet50, 64, 8, (1.0,), 3, 3.5),
    "mobilenet_v2": (mobilenet_v2, 64, 8, (1.0,), 7, 2.5),
    "vgg16_bn": (vgg16_bn, 64, 8, (1.0,), 1, 2.5),
    "densenet121": (torchvision.models.densenet121, 64, 8, (1.0,), 2, 2.5),
    "efficientnet_b0": (efficientnet_b0, 64, 8, (1.0,), 1, 2.5),
    "inception_v3": (inception_v3, 299, 4, (1.0, 0.4), 1, 4.5),  # the auxiliary head's windows need 299x299
    "smooth_inception_v3": (smooth_inception_v3, 299, 4, (1.0, 0.4), 1, 0.5),  # run it alone: changes inception_v3
}


BUILTIN = {"resnet18": "imagenet-resnet18", "resnet50": "imagenet-resnet50", "mobilenet_v2": "mobilenet-v2",
           "vgg16_bn": "vgg16-bn", "densenet121": "densenet121", "efficientnet_b0": "efficientnet-b0"}


def builtin_recipe(name, size, group):
    """Its text with images of this size, without dropout, with the training of the comparison; its smoothing."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/recipes")
    with open(os.path.join(folder, name + ".toml"), encoding="utf-8") as file:
        text = file.read()
    smoothing = tomllib.loads(text).get("loss", [{}])[0].get("smoothing", 0)
    text = text[: text.index("[pipeline]")] + FOOTER
    for pattern, value in ((r"^shape = .*", f"shape = [{size}, {size}, 3]"), (r"keep = [0-9.]+", "keep = 1.0"),
                           (r"group = [0-9]+", f"group = {group}")):
        text = re.sub(pattern, value, text, flags=re.MULTILINE)
    return text, smoothing


def renamed(network, tensors):
    """With the recipe's names and axes."""
    arrays = network.renamed({name: each.detach().numpy() for name, each in tensors.items()})
    return {name: torch.from_numpy(each) for name, each in arrays.items()}


def call_as_in(network, dump_step, recipe):
    """Gives variables the recipe's names. Its layers must come in the order in which torchvision's are called."""
    listing = subprocess.run([dump_step, "--variables", recipe], check=True, capture_output=True, text=True)
    names = listing.stdout.split()
    assert len(names) == len(network.variables), f"{len(names)} variables for {len(network.variables)}"
    for name, ours in zip(network.variables, names):
        was, move = network.variables[name]
        assert was.rpartition("/")[2] == ours.rpartition("/")[2], f"{name} is not {ours}"
        network.variables[name] = (ours, move)


def make(maker, seed, distance):
    """The network with values that show which is which: no gamma is one, no beta zero. Few of ReLU's inputs may be so
    close to zero that rounding decides about their gradients, so betas keep most of them away from it."""
    torch.manual_seed(seed)
    model = maker()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.uniform_(0.75, 1.25)
                module.bias.uniform_(distance - 0.5, distance + 0.5)
                module.bias.mul_(torch.where(torch.rand_like(module.bias) < 0.3, -1.0, 1.0))
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.75, 1.25)
            if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
                module.bias.normal_(0, 0.05)
    return model.train()


def perturb(model, seed):
    """Moves every variable by about a rounding of float32."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double()
    with torch.no_grad():
        for each in model.parameters():
            each *= 1 + 6e-8 * torch.randn(each.shape, generator=generator, dtype=torch.float64)
    return model


def train(model, images, labels, weights, smoothing, dtype, steps=STEPS):
    """Losses, gradients of the first step, variables after the last."""
    model = model.to(dtype)
    x = (images.to(dtype) / 255 - MEAN) / DEVIATION
    batch = len(images) // STEPS
    loss_of = nn.CrossEntropyLoss(label_smoothing=smoothing)
    losses, gradients = [], None
    for step in range(steps):
        part = slice(step * batch, (step + 1) * batch)
        outputs = model(x[part])
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        loss = sum(weight * loss_of(each, labels[part]) for weight, each in zip(weights, outputs, strict=True))
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if gradients is None:
            gradients = {name: each.grad.clone() for name, each in model.named_parameters()}
        with torch.no_grad():
            for each in model.parameters():
                each -= RATE * each.grad
    return losses, gradients, {name: each.clone() for name, each in model.state_dict().items()}


def off(measured, truth, floor=0.0):
    return (measured.double() - truth.double()).norm().item() / max(truth.double().norm().item(), floor, 1e-300)


def floors(gradients):
    """A bias' gradient may be zero: then its error counts against a typical one of its layer's weights."""
    found = {}
    for name, each in gradients.items():
        layer, _, kind = name.rpartition("/")
        if kind in ("biases", "beta"):
            other = gradients[layer + ("/weights" if kind == "biases" else "/gamma")]
            found[name] = 0.1 * other.norm().item() * math.sqrt(each.numel() / other.numel())
    return found


def compare(name, arguments, folder):
    maker, size, batch, weights, seed, distance = MODELS[name]
    seed = arguments.seed or seed
    size, batch = arguments.size or size, arguments.batch or batch
    random = torch.Generator().manual_seed(seed + 1)
    images = torch.randint(0, 256, (STEPS * batch, 3, size, size), generator=random).float()
    random = torch.Generator().manual_seed(seed + 2)
    labels = torch.randint(0, CLASSES, (STEPS * batch,), generator=random)
    model = make(maker, seed, distance)
    network = network_of(model, (size, size, 3), arguments.group or batch)[0]
    path = {what: os.path.join(folder, f"{name}-{what}") for what in ("recipe.toml", "init", "records", "out")}
    text, smoothing = recipe_text(network, weights=weights, smoothing=SMOOTHING, footer=FOOTER), SMOOTHING
    if arguments.builtin:
        text, smoothing = builtin_recipe(BUILTIN[name], size, arguments.group or batch)
    with open(path["recipe.toml"], "w", encoding="utf-8") as file:
        file.write(text)
    if arguments.builtin:
        call_as_in(network, arguments.dump_step, path["recipe.toml"])
    init = model.state_dict()
    save_file(renamed(network, init), path["init"])
    save_file({"images": images, "labels": labels.float()}, path["records"])

    began = time.monotonic()
    command = [arguments.dump_step, path["recipe.toml"], path["init"], path["records"], arguments.devices, str(STEPS),
               path["out"]]
    subprocess.run(command + (["--shares", arguments.shares] if arguments.shares else []), check=True)
    seconds = time.monotonic() - began
    ours = load_file(path["out"])
    losses, gradients, final = train(model, images, labels, weights, smoothing, torch.float64)
    gradients, final = renamed(network, gradients), renamed(network, final)
    _, gradients32, final32 = train(make(maker, seed, distance), images, labels, weights, smoothing, torch.float32)
    gradients32, final32 = renamed(network, gradients32), renamed(network, final32)

    wrong = 0
    loss_off = max(abs(a - b) / abs(b) for a, b in zip(ours["losses"].tolist(), losses))
    wrong += abs(ours["losses"][0].item() - losses[0]) / losses[0] > 1e-5 or loss_off > 1e-4
    floor = floors(gradients)
    ours_off = {key: off(ours["gradient/" + key], truth, floor.get(key, 0)) for key, truth in gradients.items()}
    explained = {key: off(gradients32[key], truth, floor.get(key, 0)) for key, truth in gradients.items()}
    if max(ours_off.values()) > 1e-4:
        for noise in range(arguments.perturbed):
            model = perturb(make(maker, seed, distance), noise)
            _, moved, _ = train(model, images, labels, weights, smoothing, torch.float64, 1)
            for key, each in renamed(network, moved).items():
                explained[key] = max(explained[key], off(each, gradients[key], floor.get(key, 0)))
    rows = sorted(((error, explained[key], key) for key, error in ours_off.items()), reverse=True)
    bad = [row for row in rows if row[0] > 1e-4 and not (row[0] < 1e-3 and row[0] < 3 * max(explained.values()))]
    statistics = [(off(ours["final/" + key], truth), off(final32[key], truth), key)
                  for key, truth in final.items() if "/moving_" in key]
    statistics.sort(reverse=True)
    wrong += len(bad) + sum(row[0] > 1e-4 and row[0] > 3 * row[1] for row in statistics)
    print(f"{BUILTIN[name] if arguments.builtin else name}: {size}x{size}, batch {batch}, {arguments.devices}, "
          f"{seconds:.1f} s: {'wrong' if wrong else 'agrees'}")
    print(f"  losses {[round(each, 6) for each in losses]}: off by at most {loss_off:.1e}, the first by "
          f"{abs(ours['losses'][0].item() - losses[0]) / losses[0]:.1e}")
    print(f"  {len(rows)} gradients: {sum(row[0] > 1e-4 for row in rows)} off by more than 1e-4 "
          f"(PyTorch with other rounding: {sum(row[1] > 1e-4 for row in rows)}); {len(bad)} wrong")
    for row in bad[:arguments.rows] or rows[:arguments.rows]:
        print(f"    {row[0]:.1e} (PyTorch rounded otherwise {row[1]:.1e}) {row[2]} |g| = {gradients[row[2]].norm():.2e}")
    if statistics:
        print(f"  {len(statistics)} moving statistics: off by at most {statistics[0][0]:.1e} "
              f"(PyTorch's float32 {statistics[0][1]:.1e}) {statistics[0][2]}", flush=True)
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump_step", help="the program of that name, built with the tests")
    parser.add_argument("--models", default=",".join(list(MODELS)[:-1]))
    parser.add_argument("--builtin", action="store_true", help="compare the built-in recipes of these networks")
    parser.add_argument("--devices", default="cpu", help="the towers' devices (default: cpu)")
    parser.add_argument("--shares")
    parser.add_argument("--size", type=int, help="of the images, in place of each network's own")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--group", type=int, help="of batch norm; only for speed, PyTorch takes the whole batch")
    parser.add_argument("--perturbed", type=int, default=4, help="runs with variables moved (default: 4)")
    parser.add_argument("--rows", type=int, default=3, help="gradients to print of each network")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(name, arguments, folder) for name in arguments.models.split(",")]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
