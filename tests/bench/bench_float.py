# SPDX-License-Identifier: MIT
"""bench_float.py PROGRAM: float32 operators on one core, in ratio to onnxruntime's.

Bursts of PROGRAM (tests/bench/bench_float.c) and of onnxruntime alternate, each in a process of its
own, without threads that spin. A time is processor time, and the median of the bursts' medians.
"""
import os
import statistics
import subprocess
import sys
import time

ROUNDS = 5
RUNS = 15
# name: channels, outputs, side, kernel, stride, groups, dilation of a convolution; rows, columns,
# inner of a product, whose right operand is constant or dynamic
LAYERS = {
    "conv1x1_56_128": ("conv", 128, 128, 56, 1, 1, 1, 1),
    "conv1x1_14_512": ("conv", 512, 512, 14, 1, 1, 1, 1),
    "conv3x3_56_64": ("conv", 64, 64, 56, 3, 1, 1, 1),
    "conv3x3_28_128": ("conv", 128, 128, 28, 3, 1, 1, 1),
    "conv3x3_7_512": ("conv", 512, 512, 7, 3, 1, 1, 1),
    "conv3x3_56_128_by2": ("conv", 128, 128, 56, 3, 2, 1, 1),
    "conv7x7_224_3_by2": ("conv", 3, 64, 224, 7, 2, 1, 1),
    "depthwise_112_32": ("conv", 32, 32, 112, 3, 1, 32, 1),
    "depthwise_56_144_by2": ("conv", 144, 144, 56, 3, 2, 144, 1),
    "depthwise_14_384": ("conv", 384, 384, 14, 3, 1, 384, 1),
    "depthwise_128_64_apart36": ("conv", 64, 64, 128, 3, 1, 64, 36),
    "depthwise_224_64_by16": ("conv", 64, 64, 224, 1, 16, 64, 1),
    "conv63x63_70_1": ("conv", 1, 4, 70, 63, 1, 1, 1),
    "matmul_128_768": ("matmul", 128, 768, 768),
    "matmul_1_1000": ("matmul", 1, 1000, 2048),
    "dynamic_1_1024": ("dynamic", 1, 1024, 4096),
}


def code(layer):
    return ":".join(str(v) for v in layer)


def macs(layer):
    if layer[0] != "conv":
        return layer[1] * layer[2] * layer[3]
    _, c, m, side, k, stride, group, dilation = layer
    out = (side + (k // 2 * 2 - k + 1) * dilation - 1) // stride + 1
    return m * c // group * k * k * out * out


def model(layer):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(1)
    if layer[0] != "conv":
        _, m, n, k = layer
        shape, weights, node = [m, k], (k, n), helper.make_node("MatMul", ["x", "w"], ["y"])
    else:
        _, c, m, side, k, stride, group, dilation = layer
        shape, weights = [1, c, side, side], (m, c // group, k, k)
        node = helper.make_node("Conv", ["x", "w"], ["y"], group=group, strides=[stride] * 2,
                                pads=[k // 2 * dilation] * 4, dilations=[dilation] * 2)
    w = numpy_helper.from_array(rng.random(weights, dtype=np.float32) - np.float32(0.5), "w")
    inputs = {"x": rng.random(shape, dtype=np.float32) - np.float32(0.5)}
    if layer[0] == "dynamic":
        inputs["w"] = numpy_helper.to_array(w)
    graph = helper.make_graph([node], "layer",
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, v.shape)
                               for name, v in inputs.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [] if "w" in inputs else [w])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString(), inputs


def peer(codes):
    """Prints the times of onnxruntime as PROGRAM prints its own."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for c in codes:
        layer = tuple(v if i == 0 else int(v) for i, v in enumerate(c.split(":")))
        data, inputs = model(layer)
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        took = []
        for _ in range(RUNS + 2):
            t = time.process_time()
            session.run(None, inputs)
            took.append(time.process_time() - t)
        print(c, statistics.median(took[2:]))


def burst(command):
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in text.splitlines())


def main(program):
    codes = [code(layer) for layer in LAYERS.values()]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(burst([program, *codes]))
        theirs.append(burst([sys.executable, os.path.abspath(__file__), "--peer", *codes]))
    peak = max(float(o["peak"]) for o in ours)
    print(f"instruction set {ours[0]['set']}, onnxruntime with what it chooses")
    print(f"figure cpu.float.peak {peak:.1f} GMAC/s")
    ratios = []
    for name, layer in LAYERS.items():
        c = code(layer)
        t = statistics.median(float(o[c]) for o in ours)
        ratios.append(t / statistics.median(float(o[c]) for o in theirs))
        rate = macs(layer) / t * 1e-9
        print(f"figure cpu.float.{name}.rate {rate:.1f} GMAC/s")
        if peak:
            print(f"figure cpu.float.{name}.share {100 * rate / peak:.1f} %")
        print(f"figure cpu.float.{name}.ratio {ratios[-1]:.2f} x")
    print(f"figure cpu.float.layers.mean {statistics.geometric_mean(ratios):.2f} x")
    print(f"figure cpu.float.layers.max {max(ratios):.2f} x")


if __name__ == "__main__":
    if sys.argv[1] == "--peer":
        peer(sys.argv[2:])
    else:
        main(sys.argv[1])
