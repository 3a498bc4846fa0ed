# SPDX-License-Identifier: MIT
"""Models of one quantised operator, between quantisers, as ONNX; the standard library suffices."""
import array
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "zoo"))

from wire import FLOAT, INT64, INT8, UINT8, model, node, tensor, value_info    # noqa: E402

OPSET = 19
SIDE, CHANNELS = 56, 128
IMAGE = [1, CHANNELS, SIDE, SIDE]


class Layer:
    """x is uint8; every other value but y is made by a node."""

    def __init__(self, dims, out):
        self.dims, self.out = dims, out
        self.nodes, self.constants, self.inputs = [], [], ["x"]
        self.scale = self.const(FLOAT, [], struct.pack("<f", 0.02))
        self.zero = self.const(UINT8, [], bytes([120]))

    def const(self, kind, dims, raw):
        name = f"c{len(self.constants)}"
        self.constants.append(tensor(name, kind, dims, raw))
        return name

    def ints(self, *values):
        return self.const(INT64, [len(values)], array.array("q", values).tobytes())

    def op(self, kind, inputs, outputs=1, **attrs):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(node(kind, inputs, names, attrs))
        return names[0] if outputs == 1 else names

    def dequantised(self, name="x"):
        return self.op("DequantizeLinear", [name, self.scale, self.zero])

    def second(self):
        self.inputs.append("x2")
        return self.dequantised("x2")

    def weights(self, dims, axis):
        raw = random.Random(5).randbytes(product(dims)).replace(b"\x80", b"\0")
        m = dims[axis]
        scales = array.array("f", [0.01] * m).tobytes()
        return self.op("DequantizeLinear", [self.const(INT8, dims, raw), self.const(FLOAT, [m], scales),
                                            self.const(INT8, [m], bytes(m))], axis=axis)

    def quantised(self, name):
        return self.op("QuantizeLinear", [name, self.scale, self.zero])

    def save(self, path, result, kind=UINT8, first=UINT8):
        results = result if isinstance(result, list) else [result]
        data = model(self.nodes, "layer", self.constants,
                     [value_info(n, first, self.dims) for n in self.inputs],
                     [value_info(n, kind, self.out) for n in results], OPSET)
        with open(path, "wb") as f:
            f.write(data)


def product(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def simple(kind, out=None, **attrs):
    """A node of one quantised operand."""
    def build(path):
        n = Layer(IMAGE, out or IMAGE)
        n.save(path, n.quantised(n.op(kind, [n.dequantised()], **attrs)))
    return build


def binary(kind):
    def build(path):
        n = Layer(IMAGE, IMAGE)
        n.save(path, n.quantised(n.op(kind, [n.dequantised(), n.second()])))
    return build


def quantise(path):
    n = Layer(IMAGE, IMAGE)
    n.save(path, n.quantised("x"), first=FLOAT)


def dequantise(path):
    n = Layer(IMAGE, IMAGE)
    n.save(path, n.dequantised(), kind=FLOAT)


def concat(path):
    n = Layer(IMAGE, [1, 2 * CHANNELS, SIDE, SIDE])
    n.save(path, n.quantised(n.op("Concat", [n.dequantised(), n.second()], axis=1)))


def resize(mode, **attrs):
    def build(path):
        n = Layer(IMAGE, [1, CHANNELS, 2 * SIDE, 2 * SIDE])
        sizes = n.const(FLOAT, [4], array.array("f", [1, 1, 2, 2]).tobytes())
        n.save(path, n.quantised(n.op("Resize", [n.dequantised(), "", sizes], mode=mode, **attrs)))
    return build


def pad(path):
    n = Layer(IMAGE, [1, CHANNELS, SIDE + 2, SIDE + 2])
    n.save(path, n.quantised(n.op("Pad", [n.dequantised(), n.ints(0, 0, 1, 1, 0, 0, 1, 1)])))


def gather(path):
    n = Layer(IMAGE, [1, CHANNELS, SIDE // 2, SIDE])
    rows = n.ints(*range(0, SIDE, 2))
    n.save(path, n.quantised(n.op("Gather", [n.dequantised(), rows], axis=2)))


def split(path):
    n = Layer(IMAGE, [1, CHANNELS // 2, SIDE, SIDE])
    halves = n.op("Split", [n.dequantised(), n.ints(CHANNELS // 2, CHANNELS // 2)], 2, axis=1)
    n.save(path, [n.quantised(h) for h in halves])


def upconv(path):
    n = Layer(IMAGE, [1, CHANNELS, 2 * SIDE, 2 * SIDE])
    w = n.weights([CHANNELS, CHANNELS, 2, 2], 1)
    n.save(path, n.quantised(n.op("ConvTranspose", [n.dequantised(), w], kernel_shape=[2, 2],
                                  strides=[2, 2])))


def conv(channels, side, kernel, group=1):
    def build(path):
        n = Layer([1, channels, side, side], [1, channels, side, side])
        n.save(path, n.quantised(convolved(n, "x", channels, kernel, 1, group)))
    return build


def convolved(n, x, channels, kernel, stride, group):
    w = n.weights([channels, channels // group, kernel, kernel], 0)
    return n.op("Conv", [n.dequantised(x), w], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                pads=[kernel // 2] * 4, group=group)


def depthwise(channels, side, stride):
    """Ten layers, one behind the other if their shapes allow, else side by side. The model's images are NHWC,
    as those of XNNPACK are: which library transposes them is not what is compared."""
    out = (side + stride - 1) // stride

    def build(path):
        n = Layer([1, side, side, channels], [1, out, out, channels])
        first = x = n.op("Transpose", ["x"], perm=[0, 3, 1, 2])
        results = []
        for _ in range(10):
            results.append(n.quantised(convolved(n, x, channels, 3, stride, channels)))
            x = first if stride > 1 else results[-1]
        n.save(path, [n.op("Transpose", [r], perm=[0, 2, 3, 1])
                      for r in (results if stride > 1 else results[-1:])])
    return build


OPERATORS = {
    "quantise": quantise, "dequantise": dequantise, "add": binary("Add"), "mul": binary("Mul"),
    "maxpool": simple("MaxPool", [1, CHANNELS, SIDE // 2, SIDE // 2], kernel_shape=[2, 2], strides=[2, 2]),
    "maxpool3": simple("MaxPool", kernel_shape=[3, 3], pads=[1] * 4),
    "averagepool": simple("AveragePool", kernel_shape=[3, 3], pads=[1] * 4),
    "globalaverage": simple("GlobalAveragePool", [1, CHANNELS, 1, 1]),
    "concat": concat, "sigmoid": simple("Sigmoid"), "leakyrelu": simple("LeakyRelu", alpha=0.1),
    "hardswish": simple("HardSwish"), "softmax": simple("Softmax", axis=1),
    "transpose": simple("Transpose", [1, SIDE, SIDE, CHANNELS], perm=[0, 2, 3, 1]),
    "resize": resize("nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resizelinear": resize("linear"),
    "pad": pad, "gather": gather, "split": split, "convtranspose": upconv,
    "conv1x1": conv(128, 56, 1), "conv3x3": conv(128, 56, 3), "grouped": conv(128, 56, 3, 4),
}

# Those of the comparison with XNNPACK.
DEPTHWISE = {f"depthwise_{side}_{c}{'_by2' if stride > 1 else ''}": depthwise(c, side, stride)
             for side, c in ((112, 32), (56, 144), (14, 384)) for stride in (1, 2)}
