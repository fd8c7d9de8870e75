#!/usr/bin/env python3
"""Prints how many pictures a second torchvision's loader brings, prepared as `towers` prepares them: the middle box,
resized to SIZE pixels, as bytes.
usage: loader_in_torchvision.py FOLDER SIZE WORKERS [PICTURES]
FOLDER has a folder of pictures for each class, such as train/ of a data set. Needs torch and torchvision."""
import sys
import time

import torch
import torchvision
from torchvision import transforms

if len(sys.argv) not in (4, 5):
    sys.exit(__doc__)
folder, size, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)  # a worker is a process with one thread
prepare = transforms.Compose([transforms.Resize(size), transforms.CenterCrop(size), transforms.PILToTensor()])
data = torchvision.datasets.ImageFolder(folder, prepare)
order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1))
wanted = int(sys.argv[4]) if len(sys.argv) > 4 else len(data)
loader = torch.utils.data.DataLoader(torch.utils.data.Subset(data, order[:wanted].tolist()), 32, num_workers=workers)
start = None  # the first batch is not counted, as workers start meanwhile
for count, (images, _) in enumerate(loader):
    if start is None:
        start, first = time.perf_counter(), len(images)
        seen = 0
        continue
    seen += len(images)
print(f"torchvision {torchvision.__version__}, {workers} workers: {seen / (time.perf_counter() - start):.0f} pictures/s")
