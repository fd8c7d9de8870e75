#!/usr/bin/env python3
"""Predicts pictures as `towers predict` does, with PIL and onnxruntime on the CPU: the same classes, and how fast?

Usage: predict_in_onnxruntime.py RUN FOLDER [--threads N] [--batch N] [--csv FILE] [--whole] [--repeat N] [--raw]
           [--no-spinning]

RUN is a run's folder of a recipe that recipe_network.py knows (cifar10-fast, cifar10-resnet20, imagenet-resnet18, with
a pipeline of normalized images). Its latest checkpoint becomes an ONNX file through PyTorch. The JPEG, PNG and WebP files
below FOLDER are decoded by N threads of PIL, which let go of Python's lock, while onnxruntime computes with N threads.
JPEGs are decoded at the smallest eighths that suffice (Image.draft), as towers does; --whole decodes them in full size.
--no-spinning: onnxruntime's threads do not spin while they wait, which is fairer on a machine that does other work. Also
prints the processors' seconds, without those of the start.
--csv writes picture, class and probability, as towers predict --csv --top 1 does.

Needs torch, onnx, onnxruntime, pillow and numpy.
"""

import argparse
import collections
import csv
import glob
import io
import json
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import torch
from PIL import Image, ImageOps

from recipe_graph import read_recipe
from recipe_network import Network, read_safetensors


def metadata_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(int.from_bytes(file.read(8), "little")))["__metadata__"]


class WithPipeline(torch.nn.Module):
    """Takes bytes [N, channels, height, width] of the stored size, as the recipe's evaluation does."""

    def __init__(self, recipe, network):
        super().__init__()
        pipeline, self.network = recipe["pipeline"], network
        evaluate = pipeline.get("evaluate", {})
        if pipeline.get("values") != "normalized" or evaluate.get("box", "whole") not in ("whole", "centre_fit"):
            sys.exit("this copy knows normalized images only, whole or with centre_fit")
        self.size = recipe["input"]["shape"][:2]
        for key in ("mean", "deviation"):
            self.register_buffer(key, 255 * torch.tensor(pipeline[key])[:, None, None])

    def forward(self, images):
        top, left = ((n - size) // 2 for n, size in zip(images.shape[2:], self.size))
        x = images[:, :, top : top + self.size[0], left : left + self.size[1]]
        return self.network((x.to(torch.float32) - self.mean) / self.deviation)


def export(run, raw):
    """The latest checkpoint as ONNX bytes, the stored [height, width], the names of the classes."""
    recipe = read_recipe(os.path.join(run, "recipe.toml"))
    files = glob.glob(os.path.join(run, "model.ckpt-*.safetensors"))
    path = max(files, key=lambda name: int(re.search(r"ckpt-(\d+)", name)[1]))
    tensors, metadata = read_safetensors(path), metadata_of(path)
    if "averages" in recipe and not raw:
        end = "/ExponentialMovingAverage"
        tensors.update({name.removesuffix(end): value for name, value in tensors.items() if name.endswith(end)})
    network = Network(recipe)
    network.load(tensors)
    height, width, channels = json.loads(metadata["image"])
    model = WithPipeline(recipe, network).eval()
    text = io.BytesIO()
    torch.onnx.export(model, (torch.zeros(2, channels, height, width, dtype=torch.uint8),), text, dynamo=False,
                      input_names=["images"], output_names=["logits"],
                      dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}})
    return text.getvalue(), (height, width), json.loads(metadata["classes"])


def prepare(path, size, whole):
    """The largest box in the middle with the size's aspect, resized, as bytes [3, height, width]."""
    height, width = size
    with Image.open(path) as image:
        if not whole:
            image.draft("RGB", (width, height))
        image = ImageOps.exif_transpose(image).convert("RGB")
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(image).transpose(2, 0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--no-spinning", action="store_true")
    args = parser.parse_args()

    model, size, classes = export(args.run, args.raw)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    if args.no_spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    paths = sorted(path for path in glob.glob(os.path.join(args.folder, "**/*"), recursive=True)
                   if path.lower().endswith((".png", ".jpg", ".jpeg")))
    for _ in range(args.repeat):
        rows, begin, used = [], time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(args.threads) as pool:
            coming, ahead = collections.deque(), 3 * args.batch
            rest = iter(paths)
            for first in range(0, len(paths), args.batch):
                for path in rest:
                    coming.append(pool.submit(prepare, path, size, args.whole))
                    if len(coming) >= ahead:
                        break
                some = paths[first : first + args.batch]
                images = np.stack([coming.popleft().result() for _ in some])
                logits = session.run(None, {"images": images})[0].astype(np.float64)
                logits -= logits.max(axis=1, keepdims=True)
                probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
                best = logits.argmax(axis=1)
                rows += [(path, classes[i], p[i]) for path, i, p in zip(some, best, probabilities)]
        seconds, used = time.perf_counter() - begin, time.process_time() - used
        print(f"onnxruntime {onnxruntime.__version__}, {args.threads} threads: {len(paths)} pictures in {seconds:.2f} s, "
              f"{len(paths) / seconds:.0f} pictures/s, {used:.1f} s of processors")
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("picture", "class_1", "probability_1"))
            writer.writerows(rows)


if __name__ == "__main__":
    main()
