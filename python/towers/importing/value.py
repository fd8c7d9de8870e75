"""What layers give."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Value:
    """The output of a layer, or the images."""

    layer: str
    shape: tuple  # height, width, channels
    rank: int = 4  # of the framework's tensor, the batch included: 4, or 2 once it is flat
    last: bool = False  # the framework has moved the channels to the end
    # The framework's index of each channel, or None if they are in the framework's order. A flat image is in the order
    # [channels, height, width] there, but [height, width, channels] here.
    order: object = None
    ending: str = ""  # "softmax" or "log_softmax": what the framework then computes of it, at the end

    @property
    def pixels(self):
        return self.shape[0] * self.shape[1]

    @property
    def channels(self):
        return self.shape[2]

    def flat(self):
        """The value as a vector; `order` says how its elements are to be moved."""
        if self.rank == 2:
            return self
        height, width, channels = self.shape
        elements = height * width * channels
        order = None
        if self.pixels > 1 and channels > 1 and not self.last:
            order = np.arange(elements).reshape(channels, height, width).transpose(1, 2, 0).ravel()
        return dataclasses.replace(self, rank=2, last=False, order=order)
