# SPDX-License-Identifier: MIT
"""Fashion-MNIST as Debian's dataset-fashion-mnist installs it."""
import gzip
import pathlib

import numpy as np

ROOT = pathlib.Path("/usr/share/datasets/fashion-mnist")


def _idx(path, magic, header):
    data = gzip.open(path).read()
    if int.from_bytes(data[:4], "big") != magic:
        raise SystemExit(f"{path}: not an IDX file of kind {magic:#x}")
    return np.frombuffer(data, np.uint8, offset=header)


def images(part):
    """uint8 [N, 1, 28, 28]; part is 'train' or 't10k'."""
    return _idx(ROOT / f"{part}-images-idx3-ubyte.gz", 0x803, 16).reshape(-1, 1, 28, 28)


def labels(part):
    """uint8 [N]."""
    return _idx(ROOT / f"{part}-labels-idx1-ubyte.gz", 0x801, 8)


def to_input(pixels):
    """The input of every model: float32(pixel) / float32(255)."""
    return pixels.astype(np.float32) / np.float32(255)
