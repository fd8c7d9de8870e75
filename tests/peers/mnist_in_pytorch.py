#!/usr/bin/env python3
"""Compares the recipes mnist-tutorial and mnist-lenet with networks written by hand in PyTorch.

Usage: /usr/bin/python3 tests/peers/mnist_in_pytorch.py RUN FOLDER [--steps N]

RUN is a run of `towers train --recipe mnist-tutorial|mnist-lenet --shuffle off --log-every 1 --save-every 0`, and
FOLDER the MNIST files (IDX, gzip) that it was trained on. The networks start from the variables of the run's first
checkpoint, take the same digits in the same order and follow the book: cross entropy, L2 of the weights, a rate that
falls by 1 % an epoch, moving averages. It prints the losses of the first steps beside those of PyTorch in float64 and
float32, then the precision @ 1 of the moving averages on the test digits.

The pixels of mnist-tutorial are 0 to 255, so its first losses are in the hundreds and rounding grows about tenfold
every four steps: PyTorch's own float32 leaves its float64. So the script also takes every step from the variables of
towers, where RUN has them (--save-every 1 --keep 0). Dropout draws other numbers here, so losses of mnist-lenet differ.

Debian 12: apt-get install python3-torch
"""

import argparse
import gzip
import json
import math
import os
import sys

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
    import tomllib
except ImportError as error:
    sys.exit(f"{sys.argv[0]}: {error}: install PyTorch, e.g. apt-get install python3-torch")

from recipe_network import read_safetensors

L2, MOST_AVERAGE_DECAY = 1e-4, 0.99


def read_digits(folder, split):
    """-> float32 [N, 28, 28, 1] of 0 to 255, labels [N]"""
    read = lambda name: gzip.open(os.path.join(folder, f"{split}-{name}-ubyte.gz"), "rb").read()
    images, labels = (np.frombuffer(read(name), np.uint8) for name in ("images-idx3", "labels-idx1"))
    images = images[16:].reshape(-1, 28, 28, 1).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(labels[8:].astype(np.int64))


def tutorial(x, v, training):
    x = F.relu(x.reshape(len(x), -1) @ v["layer1/weights"] + v["layer1/biases"])
    return x @ v["layer2/weights"] + v["layer2/biases"]


def lenet(x, v, training):
    x = x.permute(0, 3, 1, 2) / 255
    for name in ("conv1", "conv2"):
        weights = v[f"{name}/weights"].permute(3, 2, 0, 1)  # HWIO -> OIHW
        x = F.max_pool2d(F.relu(F.conv2d(x, weights, v[f"{name}/biases"], padding=2)), 2)
    x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
    x = F.dropout(F.relu(x @ v["fc1/weights"] + v["fc1/biases"]), 0.5, training)
    return x @ v["fc2/weights"] + v["fc2/biases"]


# name -> network, learning rate, layers whose weights decay
RECIPES = {"mnist-tutorial": (tutorial, 0.001, ("layer1", "layer2")), "mnist-lenet": (lenet, 0.01, ("fc1", "fc2"))}


class Copy:
    """A network in PyTorch that starts from a checkpoint's variables."""

    def __init__(self, recipe, checkpoint, dtype):
        self.network, self.rate, self.decaying = RECIPES[recipe]
        names = [name for name in checkpoint if name.endswith(("weights", "biases"))]
        self.v = {name: checkpoint[name].to(dtype).requires_grad_() for name in names}
        self.average = {name: value.detach().clone() for name, value in self.v.items()}

    def losses(self, images, labels):
        """-> mean loss with weight decay, its weight decay"""
        l2 = L2 * sum((self.v[f"{name}/weights"] ** 2).sum() / 2 for name in self.decaying)
        return F.cross_entropy(self.network(images, self.v, True), labels) + l2, l2

    def step(self, images, labels, step, epoch):
        """-> the loss before the update"""
        loss, _ = self.losses(images, labels)
        loss.backward()
        n, now = step + 1, self.rate * 0.99**epoch
        with torch.no_grad():
            for name, value in self.v.items():
                value -= now * value.grad
                value.grad = None
                self.average[name] += (1 - min(MOST_AVERAGE_DECAY, (1 + n) / (10 + n))) * (value - self.average[name])
        return loss.item()

    def precision(self, images, labels):
        with torch.no_grad():
            right = sum((self.network(x, self.average, False).argmax(1) == y).sum().item()
                        for x, y in zip(images.split(500), labels.split(500)))
        return right / len(images)


def main():
    parser = argparse.ArgumentParser(description="Compares a run of an MNIST recipe with PyTorch")
    parser.add_argument("run")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, help="train for another number of steps than the run")
    args = parser.parse_args()

    with open(os.path.join(args.run, "config.toml"), "rb") as file:
        config = tomllib.load(file)
    with open(os.path.join(args.run, "metrics.jsonl"), encoding="utf-8") as file:
        theirs = [line for line in map(json.loads, file) if "tower_losses" in line]
    checkpoint = lambda step: os.path.join(args.run, f"model.ckpt-{step}.safetensors")
    images, labels = read_digits(args.folder, "train")
    batch = config.get("global-batch") or config["batch"] * len(config["towers"].split(","))
    copies = {dtype: Copy(config["recipe"], read_safetensors(checkpoint(0)), dtype)
              for dtype in (torch.float64, torch.float32)}
    data = {dtype: images.to(dtype) for dtype in copies}

    def batch_of(step, dtype):
        which = (torch.arange(batch) + step * batch) % len(images)
        return data[dtype][which], labels[which]

    torch.manual_seed(1)
    print(f"L2 at step 0: towers {theirs[0]['loss'] - theirs[0]['cross_entropy']:.4f}, "
          f"PyTorch {copies[torch.float64].losses(*batch_of(0, torch.float64))[1].item():.4f}")
    print("step      towers   difference from PyTorch's float64:  towers, PyTorch's float32, one step alone")
    for step in range(args.steps or config["steps"]):
        epoch = step * batch / len(images)
        exact, rounded = (copies[dtype].step(*batch_of(step, dtype), step, epoch) if step < 20 or dtype == torch.float32
                          else math.nan for dtype in copies)
        if step < min(20, len(theirs)):
            own, alone = theirs[step]["loss"], math.nan
            if os.path.exists(checkpoint(step)):
                same = Copy(config["recipe"], read_safetensors(checkpoint(step)), torch.float64)
                alone = abs(own / same.losses(*batch_of(step, torch.float64))[0].item() - 1)
            print(f"{step:4} {own:11.4f} {abs(own / exact - 1):42.1e} {abs(rounded / exact - 1):20.1e} {alone:15.1e}")
    images, labels = read_digits(args.folder, "t10k")
    print(f"PyTorch: precision @ 1 = {copies[torch.float32].precision(images, labels):.4f} of {len(images)} test digits")


main()
