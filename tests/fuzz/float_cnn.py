#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the float model that fuzz_examples.c calibrates: python3 tests/fuzz/float_cnn.py FILE"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def weights(name, *shape):
    random = np.random.default_rng(7)
    return numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)


NODES = [
    helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["a"], ["b"]),
    helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("Conv", ["c", "w2"], ["d"]),
    helper.make_node("Sigmoid", ["d"], ["e"]),
    helper.make_node("GlobalAveragePool", ["e"], ["f"]),
    helper.make_node("Flatten", ["f"], ["g"]),
    helper.make_node("Gemm", ["g", "w3"], ["y"]),
]
GRAPH = helper.make_graph(
    NODES, "float_cnn",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    [weights("w1", 4, 2, 3, 3), weights("w2", 5, 4, 2, 2), weights("w3", 5, 3)])
onnx.save(helper.make_model(GRAPH, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), sys.argv[1])
