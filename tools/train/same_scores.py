# SPDX-License-Identifier: MIT
"""Prints for how many test images onnxruntime's scores are those of a file, bit for bit.

    python same_scores.py MODEL.onnx SCORES.npy

SCORES.npy: float32 [N, 10], which `rivulet run --output` wrote for the first N test images.
"""
import sys

import numpy as np
import onnx

import fashion
import qdq_oracle


def main():
    session = qdq_oracle.ort_session(onnx.load(sys.argv[1]))
    scores = np.load(sys.argv[2])
    scores = scores.reshape(-1, scores.shape[-1])
    images = fashion.to_input(fashion.images("t10k")[:len(scores)])
    got = np.concatenate([session.run(None, {"image": x[None]})[0] for x in images])
    print(int((got == scores).all(axis=1).sum()))


if __name__ == "__main__":
    main()
