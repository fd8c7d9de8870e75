#!/usr/bin/env python3
"""Trains a recipe of towers in PyTorch: does it learn as well, and how fast is it?

Usage: /usr/bin/python3 tests/peers/train_in_pytorch.py --data FOLDER [--recipe cifar10-resnet20|FILE] [--epochs X]
           [--set KEY=VALUE]... [--seed N] [--init CHECKPOINT] [--distort off] [--shuffle off]
       /usr/bin/python3 tests/peers/train_in_pytorch.py --speed [--recipe NAME] [--batch N] [--image N] [--steps N] [--json]
           [--device cuda] [--mode eager|compile|cuda-graph|compile-cuda-graph] [--precision fp32|tf32|bf16]

FOLDER holds CIFAR-10's binary files. Network, pipeline, loss, optimizer and schedule follow the recipe's file as
`towers train` does; --set is as there. Classes as often as each other are PyTorch's WeightedRandomSampler's, mixed images
timm's Mixup's, RandAugment torchvision's. It prints the loss with its weight decay, and at the end the precision @ 1 and
the balanced accuracy on the test images. From towers' own checkpoint with --distort off --shuffle off, the losses are those of towers.

--speed times forward + backward + update on prepared random images of --image x --image, as pytorch_cifar10.py does: no
loading, cropping or logging. Statistics of batch norm are then of the whole batch, which is the fastest in PyTorch, and
imagenet-resnet18 is torchvision's own network.

Debian 12: apt-get install python3-torch python3-torchvision libopenblas0-openmp
"""

import argparse
import glob
import itertools
import json
import math
import os
import sys
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"{sys.argv[0]}: {error}: install PyTorch, e.g. apt-get install python3-torch")

import pytorch_cifar10
from recipe_graph import read_recipe
from recipe_network import Network, read_safetensors

LOG_EVERY, EVALUATED = 50, 500  # steps; images at once


def read_records(folder, pattern):
    """CIFAR-10's files -> bytes [N, 32, 32, 3], labels [N]"""
    files = sorted(glob.glob(os.path.join(folder, pattern)))
    if not files:
        sys.exit(f"{folder}: no {pattern}; pass the folder of CIFAR-10's binary version")
    data = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 1 + 3 * 32 * 32) for file in files])
    images = data[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return torch.from_numpy(np.ascontiguousarray(images)), torch.from_numpy(data[:, 0].astype(np.int64))


class Pipeline:
    """bytes [N, height, width, channels] -> float [N, channels, height, width], channels-last"""

    KNOWN = {"box", "pad", "padding", "flip", "cutout", "rand_augment"}

    def __init__(self, recipe, random):
        pipeline, self.random = recipe["pipeline"], random
        self.training = pipeline.get("train", {})
        unknown = [*(set(self.training) - self.KNOWN), *pipeline.get("evaluate", {})]
        if unknown or self.training.get("box", "whole") not in ("whole", "random_crop"):
            sys.exit(f"this copy knows crops, flips and cutout of training images only, not {unknown}")
        if pipeline.get("values") != "normalized":
            sys.exit("this copy knows normalized images only")
        self.size = recipe["input"]["shape"][:2]
        self.policy = None
        if policy := self.training.get("rand_augment"):
            from torchvision.transforms import RandAugment
            self.policy = RandAugment(policy.get("operations", 2), policy.get("magnitude", 9))
        self.mean, self.deviation = (255 * torch.tensor(pipeline[key]) for key in ("mean", "deviation"))

    def normalized(self, images):
        return ((images - self.mean) / self.deviation).permute(0, 3, 1, 2)

    def draw(self, count, end):
        return torch.randint(0, end, (count, 1), generator=self.random)

    def lines(self, first, length, size):
        """Lines of the records from `first` (may be in the padding), and whether each is in the image."""
        at = first + torch.arange(length)
        if self.training.get("padding", "zero") == "reflect":
            at = at.abs()
            at = torch.where(at < size, at, 2 * (size - 1) - at)
        return at.clamp(0, size - 1), (at >= 0) & (at < size)

    def distorted(self, records, chosen):
        count, (height, width), pad = len(chosen), self.size, 0
        top, left = torch.zeros(2, count, 1, dtype=torch.int64)
        if self.training.get("box") == "random_crop":
            pad = self.training.get("pad", 0)
            top = self.draw(count, records.shape[1] + 2 * pad - height + 1) - pad
            left = self.draw(count, records.shape[2] + 2 * pad - width + 1) - pad
        rows, row_known = self.lines(top, height, records.shape[1])
        columns, column_known = self.lines(left, width, records.shape[2])
        if self.training.get("flip", False):
            flip = self.draw(count, 2) == 1
            columns = torch.where(flip, columns.flip(1), columns)
            column_known = torch.where(flip, column_known.flip(1), column_known)
        images = records[chosen[:, None, None], rows[:, :, None], columns[:, None, :]].to(self.mean)
        images *= (row_known[:, :, None] & column_known[:, None, :])[..., None]  # padding is black, not the mean
        if self.policy:
            images = torch.stack([self.policy(each) for each in images.to(torch.uint8).permute(0, 3, 1, 2)])
            images = images.permute(0, 2, 3, 1).to(self.mean)
        images = self.normalized(images)
        if cutout := self.training.get("cutout", 0):
            row = torch.arange(height) - self.draw(count, height - cutout + 1)
            column = torch.arange(width) - self.draw(count, width - cutout + 1)
            row, column = (row >= 0) & (row < cutout), (column >= 0) & (column < cutout)
            images.masked_fill_((row[:, :, None] & column[:, None, :])[:, None], 0)
        return images


class BalancedSampler:
    """Draws examples with replacement, each class equally often: WeightedRandomSampler."""

    def __init__(self, labels, seed):
        self.weights = (1 / torch.bincount(labels).double())[labels]
        self.random = torch.Generator().manual_seed(seed)

    def batch(self, _, count):
        return torch.multinomial(self.weights, count, replacement=True, generator=self.random)


class Sampler:
    """An endless stream of examples; each epoch has a permutation of its own, and batches cross epochs' ends."""

    def __init__(self, records, seed, shuffle):
        self.records, self.seed, self.shuffle, self.orders = records, seed, shuffle, {}

    def order(self, epoch):
        if epoch not in self.orders:
            random = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
            self.orders = {each: self.orders[each] for each in self.orders if each == epoch - 1}
            self.orders[epoch] = (torch.randperm(self.records, generator=random) if self.shuffle
                                  else torch.arange(self.records))
        return self.orders[epoch]

    def batch(self, first, count):
        parts = []
        while count > 0:
            epoch, place = divmod(first, self.records)
            parts.append(self.order(epoch)[place : place + count])
            first, count = first + len(parts[-1]), count - len(parts[-1])
        return torch.cat(parts)


def factor_at(schedule, epoch):
    """What the learning rate is multiplied by, so many epochs of examples before the step."""
    kind, length, last = schedule.get("kind", "constant"), schedule.get("epochs", 1), schedule.get("last", 0)
    done = min(1, epoch / length)
    factor = 1
    if kind == "staircase":
        factor = schedule["factor"] ** math.floor(epoch / length)
    elif kind == "piecewise":
        for boundary, value in zip(schedule["boundaries"], schedule["factors"], strict=True):
            factor = value if epoch >= boundary else factor
    elif kind == "cosine":
        factor = last + (1 - last) * 0.5 * (1 + math.cos(math.pi * done))
    elif kind == "one_cycle":
        first, peak = schedule.get("first", 0), schedule.get("peak", 0.3)
        factor = (first + (1 - first) * done / peak if done < peak
                  else 1 + (last - 1) * ((done - peak) / (1 - peak) if peak < 1 else 0))
    elif kind != "constant":
        sys.exit(f"this copy knows no schedule of kind {kind}")
    warm_up = schedule.get("warm_up", 0)
    return factor * (min(1, epoch / warm_up) if warm_up else 1)


def make_optimizer(recipe, parameters, decays):
    """SGD as the recipe has it. `parameters`: name -> tensor; `decays`: names of those with weight decay"""
    given = recipe["optimizer"]
    unknown = set(given) - {"kind", "learning_rate", "momentum", "nesterov", "weight_decay", "decays"}
    if unknown or given["kind"] not in ("sgd", "momentum"):
        sys.exit(f"this copy knows optimizers of the kinds sgd and momentum, without {unknown or given['kind']}")
    momentum = given.get("momentum", 0.9) if given["kind"] == "momentum" else 0
    groups = [{"params": [each for name, each in parameters.items() if (name in decays) == decayed],
               "weight_decay": given.get("weight_decay", 0) if decayed else 0} for decayed in (True, False)]
    return torch.optim.SGD([group for group in groups if group["params"]], given["learning_rate"], momentum,
                           nesterov=given.get("nesterov", False), foreach=True)


def train(options, recipe):
    records, labels = read_records(options.data, "data_batch_*.bin")
    network = Network(recipe).to(memory_format=torch.channels_last)
    if options.init:
        network.load(read_safetensors(options.init))
    parameters = dict(network.named_parameters())
    optimizer = make_optimizer(recipe, parameters, network.decays)
    pipeline = Pipeline(recipe, torch.Generator().manual_seed(options.seed))
    sampler = (BalancedSampler(labels, options.seed) if recipe["training"].get("sampler") == "balanced"
               else Sampler(len(records), options.seed, options.shuffle == "on"))
    heads = recipe.get("loss", [{}])
    heads = [heads] if isinstance(heads, dict) else heads  # --set loss.KEY
    if len(heads) != 1:
        sys.exit("this copy knows recipes with one loss only")
    scale, smoothing = heads[0].get("logit_scale", 1), heads[0].get("smoothing", 0)
    weights = heads[0].get("class_weights")
    if weights == "balanced":
        weights = len(labels) / (recipe["input"]["classes"] * torch.bincount(labels).float())
    elif weights is not None:
        weights = torch.tensor(weights)
    mix = None
    if mixing := recipe.get("mixing"):
        from timm.data import Mixup
        np.random.seed(options.seed)
        mix = Mixup(mixing.get("mixup", 0), mixing.get("cutmix", 0), None, mixing.get("probability", 1),
                    mixing.get("cutmix_probability", 0.5), {"batch": "batch", "example": "elem"}[mixing.get("draw", "batch")],
                    label_smoothing=0, num_classes=recipe["input"]["classes"])
    batch = recipe["training"]["batch"]
    steps = recipe["training"]["steps"] if options.steps is None else options.steps
    if options.epochs:
        steps = math.ceil(options.epochs * len(records) / batch)
    start, logged = time.perf_counter(), 0
    for step in range(steps):
        chosen = sampler.batch(step * batch, batch)
        images = (pipeline.distorted(records, chosen) if options.distort == "on"
                  else pipeline.normalized(records[chosen]))
        targets, by = labels[chosen], 1
        if mix and options.distort == "on":
            images, targets = mix(images, targets)
            if weights is not None:  # PyTorch divides by the number of examples, towers by the sum of their weights
                by = (targets * weights).sum() / len(targets)
        loss = F.cross_entropy(scale * network(images), targets, weight=weights, label_smoothing=smoothing) / by
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step % options.log_every == 0:
            with torch.no_grad():
                loss += sum(group["weight_decay"] / 2 * each.square().sum() for group in optimizer.param_groups
                            for each in group["params"])
        rate = recipe["optimizer"]["learning_rate"] * factor_at(
            recipe.get("schedule", {}), step * batch / len(records))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        if step % options.log_every == 0:
            seconds = time.perf_counter() - start
            print(f"step {step}, loss = {loss.item():.6f}, learning rate {rate:.5f} "
                  f"({(step + 1 - logged) * batch / seconds:.1f} examples/s)", flush=True)
            start, logged = time.perf_counter(), step + 1
    return network, pipeline


def precision(options, network, pipeline):
    """On the test images, with moving statistics: precision @ 1, how many of how many are right, and balanced accuracy"""
    records, labels = read_records(options.data, "test_batch.bin")
    network.eval()
    with torch.no_grad():
        right = torch.cat([network(pipeline.normalized(part)).argmax(1) for part in records.split(EVALUATED)]) == labels
    balanced = sum(right[labels == label].double().mean().item() for label in labels.unique()) / len(labels.unique())
    return right.double().mean().item(), right.sum().item(), len(records), balanced


def benchmark(options, recipe):
    height, width, channels = recipe["input"]["shape"]
    if options.image:
        height = width = options.image
        recipe["input"]["shape"] = [height, width, channels]
    network = Network(recipe, whole_batch=True)
    decays = network.decays
    if options.recipe == "imagenet-resnet18":
        import torchvision
        network = torchvision.models.resnet18()
        decays = [name for name, _ in network.named_parameters()]  # as in the recipe
    network = network.to(options.device, memory_format=torch.channels_last).train()
    optimizer = make_optimizer(recipe, dict(network.named_parameters()), decays)
    head, batch = recipe.get("loss", [{}])[0], recipe["training"]["batch"]
    images = torch.randn(4, batch, height, width, channels, device=options.device)
    images = images.permute(0, 1, 4, 2, 3)  # channels-last
    labels = torch.randint(0, recipe["input"]["classes"], (4, batch), device=options.device)

    def loss_of(images, labels):
        logits = network(images).float()
        return F.cross_entropy(logits * head["logit_scale"] if "logit_scale" in head else logits, labels,
                               label_smoothing=head.get("smoothing", 0))

    if options.mode.startswith("compile"):
        loss_of = torch.compile(loss_of)

    def body(images, labels):
        optimizer.zero_grad(set_to_none=True)
        with pytorch_cifar10.autocast(options):
            loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for group in optimizer.param_groups:
        group["lr"] = 0.01  # prepared images are noise: a high rate could diverge, and infinities take other time
    run = pytorch_cifar10.as_graph(body, images, labels) if options.mode.endswith("cuda-graph") else body
    batches = itertools.cycle(zip(images, labels))
    return {**pytorch_cifar10.time_steps(lambda: run(*next(batches)), options),
            "device": pytorch_cifar10.device_name(options), "kind": options.device,
            "mode": options.mode, "precision": options.precision, "recipe": options.recipe, "image": [height, width], "layout": "nhwc",
            "batch": batch, "threads": torch.get_num_threads(), "torch": torch.__version__,
            "blas": pytorch_cifar10.blas()}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="cifar10-resnet20", help="a built-in recipe's name, or a file")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as towers train has it")
    parser.add_argument("--data", help="folder of CIFAR-10's binary files")
    parser.add_argument("--batch", type=int, help="examples a step (default: the recipe's)")
    parser.add_argument("--steps", type=int, help="(default: the recipe's); 0 only evaluates")
    parser.add_argument("--epochs", type=float, help="instead of --steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--init", metavar="FILE", help="begin with this checkpoint of towers")
    parser.add_argument("--distort", choices=("on", "off"), default="on")
    parser.add_argument("--shuffle", choices=("on", "off"), default="on")
    parser.add_argument("--double", action="store_true", help="compute in float64: what rounding does to the losses")
    parser.add_argument("--log-every", type=int, default=LOG_EVERY)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON line")
    parser.add_argument("--speed", action="store_true", help="time steps on prepared images")
    parser.add_argument("--image", type=int, help="of --speed: height and width (default: the recipe's)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of --speed, instead of --steps (default: 10)")
    parser.add_argument("--warmup", type=float, default=2.0, help="of --speed: seconds before (default: 2)")
    pytorch_cifar10.add_device_flags(parser.add_argument_group("of --speed"))
    options = parser.parse_args()
    if not options.speed and not options.data:
        parser.error("give --data FOLDER, or --speed")
    pytorch_cifar10.set_device(parser, options)
    return options


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    if options.double:
        torch.set_default_dtype(torch.float64)
    recipe = read_recipe(options.recipe, options.set)
    recipe["training"]["batch"] = options.batch or recipe["training"]["batch"]
    if options.speed:
        result = benchmark(options, recipe)
        print(json.dumps(result) if options.json else "\n".join(f"{key:20} {value}" for key, value in result.items()))
        return
    start = time.perf_counter()
    network, pipeline = train(options, recipe)
    seconds = round(time.perf_counter() - start, 1)
    value, right, examples, balanced = precision(options, network, pipeline)
    print(json.dumps({"precision": value, "balanced_accuracy": balanced, "seconds": seconds, "recipe": options.recipe,
                      "seed": options.seed})
          if options.json else f"trained in {seconds} s; {right} of {examples} examples, balanced accuracy {balanced:.3f}\n"
                               f"precision @ 1 = {value:.3f}")


if __name__ == "__main__":
    main()
