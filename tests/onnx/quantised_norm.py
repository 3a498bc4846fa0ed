#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures why InstanceNormalization stays in float: random networks with it as one operator in float,
and with its means, squares and roots as quantised operators.

quantised_norm.py RIVULET [NETWORKS]

Both forms are quantised with the same examples and run by onnxruntime from the exported model. Prints
the mean SNR against the float network over all networks, figures operators.norm.float and
operators.norm.bytes, and operators.norm.better, the networks where the float form has the higher SNR.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import onnxruntime as ort

IMAGE = (3, 16, 16)


class Network:
    def __init__(self, rng, parts):
        self.rng, self.parts = rng, parts
        self.nodes, self.constants = [], []

    def const(self, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op, inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def conv(self, x, channels, out, kernel):
        w = self.rng.normal(0, 1 / np.sqrt(channels * kernel * kernel), (out, channels, kernel, kernel))
        b = self.rng.normal(0, 0.3, out)
        return self.node("Conv", [x, self.const(w.astype(np.float32)), self.const(b.astype(np.float32))],
                         pads=[kernel // 2] * 4)

    def norm(self, x, channels):
        scale = self.rng.uniform(0.5, 1.5, channels).astype(np.float32)
        bias = self.rng.normal(0, 0.2, channels).astype(np.float32)
        if not self.parts:
            return self.node("InstanceNormalization", [x, self.const(scale), self.const(bias)])
        apart = self.node("Sub", [x, self.node("ReduceMean", [x], axes=[2, 3])])
        variance = self.node("ReduceMean", [self.node("Mul", [apart, apart])], axes=[2, 3])
        root = self.node("Sqrt", [self.node("Add", [variance, self.const(np.float32(1e-5))])])
        x = self.node("Mul", [self.node("Div", [apart, root]), self.const(scale.reshape(-1, 1, 1))])
        return self.node("Add", [x, self.const(bias.reshape(-1, 1, 1))])

    def model(self):
        x, channels = "x", IMAGE[0]
        for _ in range(3):
            x = self.node("Relu", [self.norm(self.conv(x, channels, 8, 3), 8)])
            channels = 8
        x = self.conv(x, channels, 4, 1)
        graph = helper.make_graph(self.nodes, "norm",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1,) + IMAGE)],
                                  [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def run(path, values):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": v[None]})[0] for v in values])


def snr(rivulet, seed, parts, folder):
    model, exported, examples = (os.path.join(folder, n) for n in ("model.onnx", "exported.onnx", "examples.npy"))
    onnx.save(Network(np.random.default_rng(seed), parts).model(), model)
    data = np.random.default_rng([seed, 1]).normal(0, 1, (32,) + IMAGE).astype(np.float32)
    np.save(examples, data[:16])
    subprocess.run([rivulet, "compile", "-q", model, "-o", os.path.join(folder, "program.rvp"), "--calibrate", examples,
                    "--range", "min-max", "--export", exported], check=True, capture_output=True)
    want, got = run(model, data[16:]), run(exported, data[16:])
    return 10 * np.log10(((want - want.mean()) ** 2).sum() / ((want - got) ** 2).sum())


def main():
    networks = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    db = np.zeros((2, networks))
    for seed in range(networks):
        for parts in range(2):
            with tempfile.TemporaryDirectory() as folder:
                db[parts, seed] = snr(sys.argv[1], seed, parts, folder)
    print(f"figure operators.norm.float {db[0].mean():.2f} dB")
    print(f"figure operators.norm.bytes {db[1].mean():.2f} dB")
    print(f"figure operators.norm.better {(db[0] > db[1]).sum()} networks")
    return int(db[0].mean() < db[1].mean())


if __name__ == "__main__":
    sys.exit(main())
