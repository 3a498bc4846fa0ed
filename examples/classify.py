#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""classify.py MODEL IMAGE...: the same as classify.c with numpy. IMAGE: 28 x 28 bytes, row by row."""
import sys

import numpy as np

import rivulet


def main(model_path, *image_paths):
    with rivulet.Client() as client:
        model = client.load(model_path)
        for path in image_paths:
            pixels = np.fromfile(path, np.uint8, 28 * 28).reshape(1, 1, 28, 28)
            scores = model.run(image=pixels.astype(np.float32) / np.float32(255))["scores"][0]
            print(path, scores.argmax(), f"{scores.max():.6f}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except OSError as e:
        sys.exit(f"classify.py: {e}")
