#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a float model of more than 2 GiB, whose weights lie in a file beside it and are almost all a hole.

large_model.py FOLDER

model.onnx: y = x W1 ... W24 with square matrices of 5,120 rows, 100 MiB each; weights.bin has those
of the first half at its start, and those of the second half from just before 4 GiB on. Matrix i, from
0, moves value i to place i + 1 and multiplies it by i + 1: the result is zero when one is read from
elsewhere. The value of matrix 12, which begins before 4 GiB, is behind it.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

ROWS, MATRICES = 5120, 24
BYTES = ROWS * ROWS * 4
HALF = MATRICES // 2
BEFORE = 65536	# bytes of matrix HALF below 4 GiB
START = 3	# the value of x at 0


def offset(i):
    return i * BYTES if i < HALF else 2 ** 32 - BEFORE + (i - HALF) * BYTES


def result():
    """y, with each product rounded to float32."""
    y = np.zeros((1, ROWS), np.float32)
    value = np.float32(START)
    for i in range(MATRICES):
        value *= np.float32(i + 1)
    y[0, MATRICES] = value
    return y


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    nodes, weights, last = [], [], "x"
    with open(os.path.join(folder, "weights.bin"), "wb") as f:
        f.truncate(offset(MATRICES))
        for i in range(MATRICES):
            f.seek(offset(i) + (i * ROWS + i + 1) * 4)
            f.write(np.float32(i + 1).tobytes())
            t = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[ROWS, ROWS],
                            data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "weights.bin"), ("offset", offset(i)), ("length", BYTES)):
                t.external_data.add(key=key, value=str(value))
            weights.append(t)
            nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"y{i}"]))
            last = f"y{i}"
    graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS])],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, ROWS])], weights)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString())
    x = np.zeros((1, ROWS), np.float32)
    x[0, 0] = START
    np.save(os.path.join(folder, "x.npy"), x)


if __name__ == "__main__":
    main()
