#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantises random float networks with rivulet and compares the device's results with onnxruntime,
which runs the exported QDQ models.

quantised_graphs.py RIVULET [COUNT [SEED]]

Networks are chains of blocks as vision models have them: convolutions with all kinds of activations,
residual additions, Split and Concat, channel shuffles, squeeze and excitation, pyramids with Resize,
pads, slices, pools, transposed convolutions, functions of two computed values, reductions, attention.
Their values are bytes from the first layer to the last, but for Softmax and InstanceNormalization,
which stay in float with one conversion at each edge. Results are therefore equal to the last bit, but
for the operators that onnxruntime computes in float (docs/numerics.md 6): a network with one of them
may be apart by one step of its output. Layers behind such a step can make several of it. Where the output
is further apart, onnxruntime therefore computes every layer alone, from the bytes that rivulet's layers have
as operands, and no result may be apart by more than a step.

Prints each network that fails, and the figures quantised.cases, quantised.wrong, quantised.apart (networks
apart by a step, or by more that come from one), quantised.amplified (those of more) and quantised.float
(operators in float between the first and the last layer).
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import onnxruntime as ort

import real

OPSETS = (11, 13, 14, 17, 18)
MOST_AMPLIFIED = 0.005  # of the networks, and one more, may be more than a step apart


class Network:
    """A model under construction: `top` is the last tensor, with its shape."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.constants = [], []
        self.floats = 0     # Softmax and normalisations, which stay in float
        self.opset = int(rng.choice(OPSETS))
        self.shape = [1, int(rng.integers(1, 9)), int(rng.integers(6, 13)), int(rng.integers(6, 13))]
        self.input = self.value = "x"
        self.input_shape = list(self.shape)

    def name(self):
        return f"t{len(self.nodes)}_{len(self.constants)}"

    def const(self, array):
        name = "c" + self.name()
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"{self.name()}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    # ---- parts ----

    def conv(self, x, channels, out, kernel=1, stride=1, group=1):
        w = self.rng.normal(0, 1 / np.sqrt(channels * kernel * kernel / group), (out, channels // group, kernel, kernel))
        b = self.rng.normal(0, 0.3, out)
        inputs = [x, self.const(w.astype(np.float32))]
        if self.rng.integers(4):
            inputs.append(self.const(b.astype(np.float32)))
        return self.node("Conv", inputs, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group)

    def activate(self, x, channels):
        kind = self.rng.integers(9)
        if kind == 0:
            return self.node("Relu", [x])
        if kind == 1:
            return self.node("LeakyRelu", [x], alpha=0.1)
        if kind == 2:
            return self.node("Mul", [x, self.node("Sigmoid", [x])])
        if kind == 3:
            return self.node("PRelu", [x, self.const(self.rng.uniform(0, 0.5, (channels, 1, 1)).astype(np.float32))])
        if kind == 4:
            return self.node("Mul", [x, self.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])
        if kind == 5:
            return self.node("Tanh", [x])
        if kind == 6:
            return self.node("Elu", [x])
        if kind == 7 and self.opset >= 14:
            return self.node("HardSwish", [x])
        return x

    # ---- blocks ----

    def block_conv(self):
        n, c, h, w = self.shape
        out, kernel = int(self.rng.integers(1, 9)), int(self.rng.choice([1, 3]))
        self.value = self.activate(self.conv(self.value, c, out, kernel), out)
        self.shape = [n, out, h, w]

    def block_depthwise(self):
        c = self.shape[1]
        self.value = self.activate(self.conv(self.value, c, c, 3, group=c), c)

    def block_residual(self):
        c = self.shape[1]
        side = self.activate(self.conv(self.value, c, c, 3), c)
        self.value = self.activate(self.node("Add", [self.value, side] if self.rng.integers(2) else [side, self.value]), c)

    def block_shuffle(self):
        n, c, h, w = self.shape
        if c < 2:
            return self.block_conv()
        half = [c // 2, c - c // 2]
        parts = self.node("Split", [self.value, self.const(np.array(half, np.int64))], 2, axis=1) \
            if self.opset >= 13 else self.node("Split", [self.value], 2, axis=1, split=half)
        side = self.activate(self.conv(parts[1], half[1], half[1], 1), half[1])
        self.value = self.node("Concat", [parts[0], side], axis=1)
        if c % 2 == 0:
            x = self.node("Reshape", [self.value, self.const(np.array([n, 2, c // 2, h, w]))])
            x = self.node("Transpose", [x], perm=[0, 2, 1, 3, 4])
            self.value = self.node("Reshape", [x, self.const(np.array([n, c, h, w]))])

    def block_dense(self):
        n, c, h, w = self.shape
        out = int(self.rng.integers(1, 5))
        side = self.activate(self.conv(self.value, c, out, 3), out)
        self.value = self.node("Concat", [self.value, side, side][:int(self.rng.integers(2, 4))], axis=1)
        self.shape = [n, c + out * (len(self.nodes[-1].input) - 1), h, w]

    def block_squeeze(self):
        c = self.shape[1]
        pooled = self.node("GlobalAveragePool", [self.value]) if self.rng.integers(2) else \
            self.node("ReduceMean", [self.value], axes=[2, 3], keepdims=1) if self.opset < 18 else \
            self.node("ReduceMean", [self.value, self.const(np.array([2, 3]))], keepdims=1)
        scale = self.node("Relu", [self.conv(pooled, c, max(1, c // 2))])
        scale = self.node("Sigmoid", [self.conv(scale, max(1, c // 2), c)])
        self.value = self.node("Mul", [self.value, scale] if self.rng.integers(2) else [scale, self.value])

    def block_pyramid(self):
        n, c, h, w = self.shape
        if h % 2 or w % 2:
            return self.block_residual()
        down = self.activate(self.conv(self.value, c, c, 3, stride=2), c)
        if self.rng.integers(2):
            roi = "" if self.opset >= 13 else self.const(np.zeros(0, np.float32))
            up = self.node("Resize", [down, roi, self.const(np.array([1, 1, 2, 2], np.float32))], mode="nearest",
                           coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        else:
            kernel = int(self.rng.choice([2, 3, 4]))
            weights = self.rng.normal(0, 0.5 / np.sqrt(c), (c, c, kernel, kernel)).astype(np.float32)
            pads = {2: [0] * 4, 3: [0, 0, 1, 1], 4: [1] * 4}[kernel]
            up = self.node("ConvTranspose", [down, self.const(weights), self.const(np.float32([0.1] * c))],
                           strides=[2, 2], pads=pads)
        self.value = self.node("Concat", [up, self.value], axis=1)
        self.shape = [n, 2 * c, h, w]

    def block_pad(self):
        n, c, h, w = self.shape
        mode = str(self.rng.choice(["constant", "edge", "reflect"]))
        inputs = [self.value, self.const(np.array([0, 0, 1, 0, 0, 0, 1, 2]))]
        if mode == "constant" and self.rng.integers(2):
            inputs.append(self.const(np.float32(self.rng.choice([0.0, 0.3, -1.0]))))
        self.value = self.node("Pad", inputs, mode=mode)
        self.value = self.node("Slice", [self.value, self.const(np.array([1, 2])), self.const(np.array([h + 1, w + 2])),
                                         self.const(np.array([2, 3]))])

    def block_pool(self):
        kind, k = int(self.rng.integers(3)), int(self.rng.integers(2, 4))
        if kind == 0:
            self.value = self.node("MaxPool", [self.value], kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == 1:
            self.value = self.node("AveragePool", [self.value], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
        else:
            self.value = self.node("AveragePool", [self.value], kernel_shape=[k, k])
            self.shape = self.shape[:2] + [self.shape[2] - k + 1, self.shape[3] - k + 1]

    def block_scale(self):
        c = self.shape[1]
        for op in self.rng.choice(["Mul", "Add", "Sub", "Div"], 2):
            v = self.rng.uniform(0.5, 1.5, (c, 1, 1)) * self.rng.choice([1, -1], (c, 1, 1))
            self.value = self.node(str(op), [self.value, self.const(v.astype(np.float32))])

    def block_norm(self):
        c = self.shape[1]
        v = [self.rng.uniform(0.5, 1.5, c), self.rng.normal(0, 0.2, c), self.rng.normal(0, 0.2, c), self.rng.uniform(0.5, 1.5, c)]
        self.value = self.activate(self.node("BatchNormalization", [self.value] + [self.const(a.astype(np.float32)) for a in v]), c)

    def block_space(self):
        n, c, h, w = self.shape
        if h % 2 or w % 2:
            return self.block_depthwise()
        self.value = self.node("SpaceToDepth", [self.value], blocksize=2)
        self.shape = [n, c * 4, h // 2, w // 2]
        if self.rng.integers(2):
            self.value = self.node("DepthToSpace", [self.value], blocksize=2, mode="CRD")
            self.shape = [n, c, h, w]

    def block_blend(self):
        """A pyramid with linear interpolation."""
        n, c, h, w = self.shape
        kind = str(self.rng.choice(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]))
        down = self.activate(self.conv(self.value, c, c, 3, stride=2), c)
        roi = "" if self.opset >= 13 else self.const(np.zeros(0, np.float32))
        sizes = self.const(np.array([n, c, h, w], np.int64))
        scales = "" if self.opset >= 13 else self.const(np.zeros(0, np.float32))
        up = self.node("Resize", [down, roi, scales, sizes], mode="linear", coordinate_transformation_mode=kind)
        self.value = self.node("Add", [up, self.value])

    def block_pair(self):
        """A function of two computed values."""
        c = self.shape[1]
        op = str(self.rng.choice(["Sub", "Div", "Max", "Min", "Sum"]))
        x = self.value if self.rng.integers(2) else self.node("GlobalAveragePool", [self.value])
        side = self.activate(self.conv(x, c, c), c)
        if op == "Div":
            side = self.node("Add", [self.node("Sigmoid", [side]), self.const(np.float32(0.5))])
        pair = [self.value, side]
        self.value = self.activate(self.node(op, pair if op == "Div" or self.rng.integers(2) else pair[::-1]), c)

    def reduce(self, op, x, axes, opset):
        """An operator whose axes are an input from @opset on."""
        if self.opset < opset:
            return self.node(op, [x], axes=axes, keepdims=1)
        return self.node(op, [x, self.const(np.array(axes))], keepdims=1)

    def block_peak(self):
        """Attention to channels and to pixels by largest and mean values."""
        c = self.shape[1]
        if self.opset < 12:  # has no ReduceMax of bytes, which onnxruntime makes of the float one
            return self.block_squeeze()
        peak = self.conv(self.reduce("ReduceMax", self.value, [2, 3], 18), c, c)
        self.value = self.node("Mul", [self.value, self.node("Sigmoid", [peak])])
        both = self.node("Concat", [self.reduce("ReduceMax", self.value, [1], 18),
                                    self.reduce("ReduceMean", self.value, [1], 18)], axis=1)
        self.value = self.node("Mul", [self.value, self.node("Sigmoid", [self.conv(both, 2, 1, 3)])])

    def block_attention(self):
        n, c, h, w = self.shape
        rows = self.node("Transpose", [self.node("Reshape", [self.value, self.const(np.array([n, c, h * w]))])], perm=[0, 2, 1])
        q, k, v, out = (self.const(self.rng.normal(0, 1 / np.sqrt(c), (c, c)).astype(np.float32)) for _ in range(4))
        keys = self.node("Transpose", [self.node("MatMul", [rows, k])], perm=[0, 2, 1])
        scores = self.node("MatMul", [self.node("MatMul", [rows, q]), keys])
        share = self.node("Softmax", [self.node("Mul", [scores, self.const(np.float32(1 / np.sqrt(c)))])], axis=2)
        self.floats += 1
        x = self.node("MatMul", [self.node("MatMul", [share, self.node("MatMul", [rows, v])]), out])
        x = self.node("Reshape", [self.node("Transpose", [x], perm=[0, 2, 1]), self.const(np.array([n, c, h, w]))])
        self.value = self.node("Add", [self.value, x])

    def block_instance(self):
        c = self.shape[1]
        v = [self.rng.uniform(0.5, 1.5, c), self.rng.normal(0, 0.2, c)]
        self.value = self.node("InstanceNormalization", [self.value] + [self.const(a.astype(np.float32)) for a in v])
        self.floats += 1
        self.value = self.activate(self.conv(self.value, c, c, 3), c)

    BLOCKS = (block_conv, block_depthwise, block_residual, block_shuffle, block_dense, block_squeeze, block_pyramid,
              block_pad, block_pool, block_scale, block_norm, block_space, block_blend, block_pair, block_peak,
              block_attention, block_instance)

    def model(self):
        self.block_conv()
        for i in self.rng.integers(0, len(self.BLOCKS), int(self.rng.integers(2, 7))):
            if self.shape[1] > 24 or min(self.shape[2:]) < 4:
                break
            self.BLOCKS[i](self)
        self.value = self.conv(self.value, self.shape[1], int(self.rng.integers(1, 5)))
        graph = helper.make_graph(self.nodes, "random",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input_shape)],
                                  [helper.make_tensor_value_info(self.value, TensorProto.FLOAT, None)], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def rivulet_run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def session(data, int8, literal):
    """@literal: every operator in float between its pairs, as the model says. A Softmax between pairs
    otherwise becomes a QLinearSoftmax, whose results are tens of steps apart (docs/numerics.md 6)."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # As docs/numerics.md 7 says.
    options.add_session_config_entry(*(("session.disable_quant_qdq", "1") if literal else
                                       ("session.qdqisint8allowed", "1") if int8 else
                                       ("session.x64quantprecision", "1")))
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


PRODUCTS = ("Conv", "Gemm", "MatMul", "QConv", "QMatMul")


def floats_between(report):
    """Operators in float between the first and the last product."""
    rows = [r for r in report["explain"]["layers"]]
    at = [i for i, r in enumerate(rows) if r["op"] in PRODUCTS]
    return [r["node"] for r in rows[at[0]:at[-1]] if r["op"] in ("DequantizeLinear", "QuantizeLinear")]


def layers_apart(rivulet, exported, value, options, folder):
    """The most steps that a layer's bytes are apart from onnxruntime's, which has rivulet's operands."""
    model = onnx.load(exported)
    names = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    every = os.path.join(folder, "every.onnx")
    onnx.save(model, every)
    rivulet_run([rivulet, "run", every, "--device", "sim:zu3eg-64", "--output", folder, "--input", f"x={value}"])
    ours = {n: real.load_output(folder, n) for n in names}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in ours:
            node.input[0] = "operand/" + node.input[0]
    model.graph.input.extend(helper.make_tensor_value_info("operand/" + n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                             for n, v in ours.items())
    feeds = {"operand/" + n: v for n, v in ours.items()} | {"x": np.load(value)}
    theirs = session(model.SerializeToString(), *options).run(names, feeds)
    return max(int(np.abs(ours[n].astype(int) - t).max()) for n, t in zip(names, theirs))


def check(rivulet, seed, folder):
    """(steps of the output that rivulet and onnxruntime are apart, steps of a layer if those are several,
    operators in float inside)"""
    rng = np.random.default_rng(seed)
    network = Network(rng)
    model = os.path.join(folder, "model.onnx")
    onnx.save(network.model(), model)
    examples, value = (os.path.join(folder, n) for n in ("examples.npy", "value.npy"))
    exported, program = (os.path.join(folder, n) for n in ("exported.onnx", "program.rvp"))
    data = rng.normal(0, 1, [8] + network.input_shape[1:]).astype(np.float32)
    np.save(examples, data)
    np.save(value, data[:1])
    int8 = bool(rng.integers(2))
    options = ["--calibrate", examples, "--range", "min-max"] + (["--activations", "int8"] if int8 else [])
    rivulet_run([rivulet, "compile", model, "-o", program, "--export", exported, "--board", "zu3eg-64"] + options)
    inside = floats_between(json.loads(rivulet_run([rivulet, "explain", model, "--json", "--board", "zu3eg-64"] + options)))
    rivulet_run([rivulet, "run", program, "--device", "sim:zu3eg-64", "--output", folder, "--input", f"x={value}"])
    ours = np.load(os.path.join(folder, network.value + ".npy"))
    literal = any(n.op_type == "Softmax" for n in network.nodes)
    theirs = session(exported, int8, literal).run(None, {"x": data[:1]})[0]
    graph = onnx.load(exported).graph
    scale = [n for n in graph.node if n.output[0] == graph.output[0].name][0].input[1]
    step = next(float(numpy_helper.to_array(c).ravel()[0]) for c in graph.initializer if c.name == scale)
    steps = int(np.rint(np.abs(ours - theirs).max() / step))
    layer = layers_apart(rivulet, exported, value, (int8, literal), folder) if steps > 1 else steps
    # A value is converted in front of an operator that stays in float and behind it.
    return steps, layer, inside if len(inside) > 2 * network.floats else []


def main():
    rivulet = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    wrong = apart = amplified = inside = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                steps, layer, floats = check(rivulet, seed, folder)
            except RuntimeError as why:
                print(f"not ok - network {seed}: {why}", flush=True)
                wrong += 1
                continue
        apart += steps > 0
        amplified += steps > 1
        wrong += layer > 1
        inside += len(floats)
        if steps or floats:
            print(f"{'not ok' if layer > 1 or floats else '#'} - network {seed}: {steps} steps apart, a layer {layer}, in float: {floats}",
                  flush=True)
    print(f"figure quantised.cases {count} networks")
    print(f"figure quantised.wrong {wrong} networks")
    print(f"figure quantised.apart {apart} networks")
    print(f"figure quantised.amplified {amplified} networks")
    print(f"figure quantised.float {inside} operators")
    if amplified > 1 + MOST_AMPLIFIED * count:
        print(f"not ok - {amplified} networks are more than a step apart, at most {1 + MOST_AMPLIFIED * count:g} may be")
    return wrong + inside > 0 or amplified > 1 + MOST_AMPLIFIED * count


if __name__ == "__main__":
    sys.exit(main())
