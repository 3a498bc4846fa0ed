#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares single quantised operators of random shapes, parameters and attributes with onnxruntime.

quantised_operators.py RIVULET [COUNT [SEED]]

Each graph is a QDQ model of one operator, compiled for the board zu3eg-64 and run on its simulated
device and CPU steps. COUNT graphs of each kind:

- average: AveragePool of images and volumes with every combination of ceil_mode and count_include_pad.
  Equal.
- gemm: Gemm with a bias of shape (N), (1, N), (1) or (), int32 or float, alpha, and transB. onnxruntime
  makes no QGemm of a bias of another shape than (N), or of alpha != 1 with a bias: those graphs may be
  one step apart (docs/numerics.md 6), the others are equal.
- whole: AveragePool over the whole image of one to three dimensions, half of those of two behind a Conv.
  Equal.

Prints each graph that differs, and for each kind the figures operators.KIND.cases, .wrong (graphs apart
by more than is documented) and .apart (graphs apart by a documented step).
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper
import onnxruntime as ort

OPSET = 19


class Graph:
    """A QDQ model of one operator. Activations are uint8."""

    def __init__(self, rng, shape):
        self.rng, self.shape = rng, shape
        self.nodes, self.constants = [], []

    def const(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def scale(self):
        return np.float32(self.rng.choice([0.5, 0.25, 0.1, 0.02, self.rng.uniform(0.005, 0.05)]))

    def pair(self, x, scale, zero=None):
        """@x through QuantizeLinear and DequantizeLinear."""
        zero = self.rng.integers(0, 256) if zero is None else zero
        args = [self.const(np.float32(scale)), self.const(np.uint8(zero))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x] + args)] + args)

    def weights(self, shape):
        """int8 weights, and their scale."""
        scale = np.float32(self.rng.uniform(0.005, 0.02))
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        return self.node("DequantizeLinear", [self.const(values), self.const(scale), self.const(np.int8(0))]), scale

    def model(self, result):
        graph = helper.make_graph(self.nodes, "one",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def average(rng, number):
    axes = 2 + (number % 8 > 5)
    k = rng.integers(1, 5, axes)
    size = [int(rng.integers(v, v + 8)) for v in k]
    g = Graph(rng, [1, int(rng.integers(1, 4))] + size)
    pads = [int(rng.integers(0, v)) for v in (*k, *k)]
    x = g.pair("x", g.scale())
    y = g.node("AveragePool", [x], kernel_shape=[int(v) for v in k], strides=[int(v) for v in rng.integers(1, 4, axes)],
               pads=pads, ceil_mode=number % 2, count_include_pad=number // 2 % 2)
    scale = g.scale()
    return g, g.pair(y, scale), scale, 0


def gemm(rng, number):
    m, k, n = (int(v) for v in rng.integers(1, 12, 3))
    g = Graph(rng, [m, k])
    scale, trans = g.scale(), int(rng.integers(2))
    x = g.pair("x", scale)
    w, weight_scale = g.weights((n, k) if trans else (k, n))
    alpha = float(rng.choice([1.0, 1.0, 0.5, 2.0, 0.3]))
    shape = [None, (n,), (1, n), (1,), ()][number % 5]
    inputs = [x, w]
    # An int32 bias of one element and N > 1 is undefined in onnxruntime (docs/numerics.md 6).
    exact = shape == (n,) and number // 5 % 2
    if exact:
        bias_scale = np.float32(np.float32(alpha) * scale) * weight_scale
        values = rng.integers(-2000, 2000, shape).astype(np.int32)
        inputs.append(g.node("DequantizeLinear", [g.const(values), g.const(bias_scale), g.const(np.int32(0))]))
    elif shape is not None:
        inputs.append(g.const(rng.normal(0, 1, shape).astype(np.float32)))
    y = g.node("Gemm", inputs, alpha=alpha, transB=trans)
    result = np.float32(rng.uniform(0.5, 2) * float(scale) * float(weight_scale) * alpha * np.sqrt(k) * 40)
    documented = shape is not None and (alpha != 1 or shape != (n,))
    return g, g.pair(y, result, 128), result, int(documented)


def whole(rng, number):
    axes = (2, 1, 2, 3)[number % 4]
    c, *image = (int(v) for v in rng.integers(1, 9 if axes < 3 else 5, 1 + axes))
    g = Graph(rng, [1, c] + image)
    scale = g.scale()
    if number % 4:
        y = g.node("AveragePool", [g.pair("x", scale)], kernel_shape=image)
        result = np.float32(scale * rng.choice([1.0, 0.5, rng.uniform(0.2, 1)]))
        return g, g.pair(y, result), result, 0
    out = int(rng.integers(1, 9))
    weights, weight_scale = g.weights((out, c, 1, 1))
    middle = np.float32(float(scale) * float(weight_scale) * np.sqrt(c) * 60)
    y = g.pair(g.node("Conv", [g.pair("x", scale), weights]), middle)
    y = g.node("AveragePool", [y], kernel_shape=image)
    result = np.float32(middle * rng.choice([1.0, 0.5, rng.uniform(0.2, 1)]))
    return g, g.pair(y, result), result, 0


def rivulet_run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def session(data):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")	# docs/numerics.md 7
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def steps_apart(rivulet, graph, result, scale, folder):
    data = graph.model(result).SerializeToString()
    model, value, program = (os.path.join(folder, n) for n in ("model.onnx", "value.npy", "program.rvp"))
    with open(model, "wb") as f:
        f.write(data)
    x = graph.rng.normal(0, 2, graph.shape).astype(np.float32)
    np.save(value, x)
    rivulet_run([rivulet, "compile", "-q", model, "-o", program, "--board", "zu3eg-64"])
    rivulet_run([rivulet, "run", program, "--device", "sim:zu3eg-64", "--output", folder, "--input", f"x={value}"])
    ours = np.load(os.path.join(folder, result + ".npy"))
    theirs = session(data).run(None, {"x": x})[0]
    return int(np.rint(np.abs(ours - theirs).max() / scale))


def compare(rivulet, kind, make, count, seed):
    wrong = apart = 0
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        with tempfile.TemporaryDirectory() as folder:
            try:
                graph, result, scale, documented = make(rng, number)
                steps = steps_apart(rivulet, graph, result, scale, folder)
            except RuntimeError as why:
                print(f"not ok - {kind} {number}: {why}", flush=True)
                wrong += 1
                continue
        wrong += steps > documented
        apart += 0 < steps <= documented
        if steps:
            print(f"{'not ok' if steps > documented else '#'} - {kind} {number}: {steps} steps apart", flush=True)
    print(f"figure operators.{kind}.cases {count} graphs")
    print(f"figure operators.{kind}.wrong {wrong} graphs")
    print(f"figure operators.{kind}.apart {apart} graphs")
    return wrong


def main():
    rivulet = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    return sum([compare(rivulet, make.__name__, make, count, seed) for make in (average, gemm, whole)]) > 0


if __name__ == "__main__":
    sys.exit(main())
