#!/usr/bin/env python3
"""Reads a run's event files with TensorBoard's own reader and checks that they have what docs/runs.md lists:
every tag, readable pictures, and histograms that agree with the variables in the checkpoint of the same step.
  events_in_tensorboard.py RUN
Needs tensorboard, safetensors and numpy."""
import glob
import io
import os
import sys

import numpy as np
from safetensors.numpy import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

run = sys.argv[1]
events = EventAccumulator(run, size_guidance={"scalars": 0, "histograms": 0, "images": 0})
events.Reload()
tags = events.Tags()
for kind in ("scalars", "histograms", "images"):
    print(f"{kind}: {len(tags[kind])}")
    for tag in tags[kind]:
        print("  " + tag)

wanted = {"total_loss", "total_loss (raw)", "cross_entropy", "cross_entropy (raw)", "learning_rate",
          "examples_per_second", "tower_0/share", "tower_0/examples_per_second", "tower_0/waiting"}
lacking = wanted - set(tags["scalars"])
assert not lacking, f"there are no scalars {lacking}"
layers = [tag[: -len("/activations")] for tag in tags["histograms"] if tag.endswith("/activations")]
assert layers and all(layer + "/sparsity" in tags["scalars"] for layer in layers)
assert {f"images/image/{i}" for i in range(3)} <= set(tags["images"])
for image in events.Images("images/image/0"):
    assert image.encoded_image_string.startswith(b"\x89PNG")

# A summary of step n is of the variables after n + 1 updates.
compared = 0
for path in glob.glob(os.path.join(run, "model.ckpt-*.safetensors")):
    step = int(path.split("-")[-1].split(".")[0]) - 1
    tensors = load_file(path)
    for name in tags["histograms"]:
        for event in events.Histograms(name):
            if event.step != step or name not in tensors:
                continue
            values = tensors[name].astype(np.float64).ravel()
            histogram = event.histogram_value
            assert histogram.num == values.size
            assert histogram.min == values.min() and histogram.max == values.max(), name
            assert np.isclose(histogram.sum_squares, (values**2).sum(), rtol=1e-5), name
            edges = np.array([-np.inf] + list(histogram.bucket_limit[:-1]) + [np.inf])
            counts, _ = np.histogram(values, edges)
            assert np.abs(counts - np.array(histogram.bucket)).sum() <= 2, name # one that stands on a limit
            compared += 1
print(f"{compared} histograms agree with the variables in checkpoints")
