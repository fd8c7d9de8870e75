#!/usr/bin/env python3
"""Makes a folder of JPEGs like ImageNet's: drawn shapes of unlike sizes, 200 to 600 pixels, a folder a class.
usage: make_pictures.py FOLDER [PICTURES [CLASSES]]     20000 pictures in 100 classes; a tenth is for testing
Needs Pillow and numpy. A class is a shape with a number of corners in one of ten hues."""
import colorsys
import multiprocessing
import os
import sys

import numpy
from PIL import Image, ImageDraw


def draw(folder, index, classes):
    random = numpy.random.default_rng(index)
    label = index % classes
    width, height = (int(side) for side in random.integers(200, 601, 2))
    # A photograph's detail: noise of several scales, so that the JPEGs have a photograph's bytes a pixel.
    picture = sum(
        numpy.asarray(Image.fromarray(random.integers(0, 256, (height // scale + 2, width // scale + 2, 3), "u1"))
                      .resize((width, height), Image.Resampling.BICUBIC), "f4") * weight
        for scale, weight in ((64, 0.6), (8, 0.25), (2, 0.15)))
    image = Image.fromarray(picture.clip(0, 255).astype("u1"))
    hue, corners = label % 10 / 10, 3 + label // 10
    colour = tuple(int(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.9, random.uniform(0.6, 1)))
    side = min(width, height)
    radius = side * random.uniform(0.25, 0.45)
    ImageDraw.Draw(image).regular_polygon((width / 2, height / 2, radius), corners, random.uniform(0, 360), colour)
    split = "test" if index // classes % 10 == 9 else "train"
    path = f"{folder}/{split}/class{label:03}"
    os.makedirs(path, exist_ok=True)
    image.save(f"{path}/{index:06}.jpg", quality=87)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    count, classes = (int(word) for word in (sys.argv[2:] + ["20000", "100"][len(sys.argv) - 2:]))
    with multiprocessing.Pool() as pool:
        pool.starmap(draw, ((sys.argv[1], index, classes) for index in range(count)), 100)
