# SPDX-License-Identifier: MIT
"""Builds networks with seeded random weights, quantised (QDQ) or float; standard library only.

The networks are too large to commit, so they are made where they are used, and that machine need
not have numpy or onnx.
"""
import array
import collections
import math
import random
import struct

import blocks
from wire import FLOAT, INT8, INT32, INT64, UINT8, model, node, tensor, value_info

OPSET = 14
SPREAD = 1.8      # standard deviation of a product's results, before the activation
DEVIATIONS = 4.5  # the range of a result reaches so many standard deviations

# A quantised value: rms is the expected root mean square of (value - zero point) in steps. Images
# are squares of @size; a vector has size 0.
Value = collections.namedtuple("Value", "name scale zp rms channels size")


def hard_swish(x):
    return x * min(max(x / 6 + 0.5, 0), 1)


def hard_sigmoid(x):
    return min(max(x / 6 + 0.5, 0), 1)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


FUNCTIONS = {"HardSwish": (hard_swish, {}), "HardSigmoid": (hard_sigmoid, {"alpha": 1 / 6}),
             "Sigmoid": (sigmoid, {}), "Silu": (lambda x: x * sigmoid(x), {})}


def moments(function):
    """(least, largest, root mean square) of the function of normal values of deviation SPREAD."""
    points = [i / 50 for i in range(-300, 301)]
    weights = [math.exp(-z * z / 2) for z in points]
    values = [function(SPREAD * z) for z in points]
    seen = [v for z, v in zip(points, values) if abs(z) <= DEVIATIONS]
    square = sum(w * v * v for w, v in zip(weights, values)) / sum(weights)
    return min(0.0, *seen), max(seen), math.sqrt(square)


def to_float32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


class Net:
    """Scales follow from the rms of values by the law of large numbers, so that activations neither
    saturate nor vanish. With @quantised false, the network has the same weights and no quantiser.
    """

    def __init__(self, seed, dtype, channels, size, quantised=True, sparsity=0):
        self.rng, self.nodes, self.init, self.count = random.Random(seed), [], [], 0
        self.kind = {"int8": INT8, "uint8": UINT8}[dtype]
        self.qmin, self.mid = {"int8": (-128, 0), "uint8": (0, 128)}[dtype]
        self.dims = [1, channels, size, size]
        self.quantised = quantised
        self.masks = blocks.Masks(seed, blocks.kept_of(sparsity)) if sparsity else None
        self.layers = 0
        self.outputs, self.floats_of = [], {}

    # ---- constants and nodes ----

    def const(self, kind, dims, raw):
        self.count += 1
        self.init.append(tensor(f"c{self.count}", kind, dims, raw))
        return f"c{self.count}"

    def scalar(self, kind, value):
        code = {FLOAT: "<f", INT8: "b", UINT8: "B", INT32: "<i", INT64: "<q"}[kind]
        return self.const(kind, [], struct.pack(code, value))

    def ints(self, *values):
        return self.const(INT64, [len(values)], array.array("q", values).tobytes())

    def floats(self, dims, values):
        return self.const(FLOAT, dims, array.array("f", values).tobytes())

    def ops(self, kind, inputs, n, **attrs):
        """A node with @n outputs."""
        self.count += 1
        names = [f"{kind.lower()}{self.count}" + (f"_{i}" if n > 1 else "") for i in range(n)]
        self.nodes.append(node(kind, inputs, names, attrs))
        return names

    def op(self, kind, inputs, **attrs):
        return self.ops(kind, inputs, 1, **attrs)[0]

    # ---- quantisers ----

    def qdq(self, x, scale, zp, rms, channels, size):
        y = x
        if self.quantised:
            s, z = self.scalar(FLOAT, scale), self.scalar(self.kind, zp)
            self.last_quantised = self.op("QuantizeLinear", [x, s, z])
            y = self.op("DequantizeLinear", [self.last_quantised, s, z])
        self.floats_of[y] = x
        return Value(y, scale, zp, rms, channels, size)

    def float_of(self, x):
        """What was quantised to @x."""
        return self.floats_of[x.name]

    def image(self):
        """Pixels 0..1, uniform."""
        return self.qdq("image", 1 / 255, self.qmin, 255 / math.sqrt(3), self.dims[1], self.dims[2])

    def of_function(self, name, y, channels, size):
        least, largest, rms = moments(FUNCTIONS[name][0])
        scale = (largest - least) / 255
        return self.qdq(y, scale, self.qmin + round(-least / scale), rms / scale, channels, size)

    def same(self, op, x, rms=None, zp=None, size=None, inputs=(), **attrs):
        """An operator whose results have the parameters of its operand, or another zero point."""
        zp = x.zp if zp is None else zp
        return self.qdq(self.op(op, [x.name, *inputs], **attrs), x.scale, zp,
                        x.rms if rms is None else rms, x.channels, x.size if size is None else size)

    # ---- layers ----

    def dequantised(self, raw, m, row_scales, axis):
        """Weights as a node of DequantizeLinear, or as floats; axis 1: the rows lie inside."""
        dims, data = raw
        if self.quantised:
            ins = [self.const(INT8, dims, data), self.const(FLOAT, [m], row_scales.tobytes()),
                   self.const(INT8, [m], bytes(m))]
            return self.op("DequantizeLinear", ins, axis=axis)
        inner = math.prod(dims[axis + 1:])
        out = []
        for i in range(0, len(data), inner):
            s = row_scales[i // inner % m]
            table = [struct.pack("<f", (b - 256 if b > 127 else b) * s) for b in range(256)]
            out.append(b"".join(map(table.__getitem__, data[i:i + inner])))
        return self.const(FLOAT, dims, b"".join(out))

    def bias(self, m, x_scale, scales, spread, shift):
        """int32 of scale x * w; the product is rounded to float32 as the quantiser does."""
        xs = to_float32(x_scale)
        steps = array.array("f", (xs * s for s in scales))
        raw = array.array("i", (int(self.rng.gauss(0, spread) + shift[i % len(shift)] / s)
                                for i, s in enumerate(steps)))
        if not self.quantised:
            return self.floats([m], (v * s for v, s in zip(raw, steps)))
        ins = [self.const(INT32, [m], raw.tobytes()), self.const(FLOAT, [m], steps.tobytes()),
               self.const(INT32, [m], bytes(4 * m))]
        return self.op("DequantizeLinear", ins, axis=0)

    def product(self, op, x, m, dims, shift=(0,), **attrs):
        """Conv, ConvTranspose or Gemm with bias, not quantised. @shift: added to biases in turn."""
        inner = op == "ConvTranspose"
        rows, channels, taps = (1, dims[0], m * math.prod(dims[2:])) if inner else \
            (m, dims[1], math.prod(dims[2:]))
        raw = self.rng.randbytes(math.prod(dims)).replace(b"\x80", b"\x00")
        prune = self.masks and self.layers and attrs.get("group", 1) == 1
        terms = channels * (1 if inner else taps)
        if prune:
            raw = self.masks.apply(raw, rows, channels, taps)
            terms = terms // channels * blocks.kept_channels(channels, self.masks.kept)
        self.layers += 1
        spread = x.rms * 73.3 * math.sqrt(terms)
        scale = SPREAD / (spread * x.scale)
        scales = array.array("f", (scale * self.rng.uniform(0.8, 1.25) for _ in range(m)))
        w = self.dequantised((dims, raw), m, scales, 1 if inner else 0)
        b = self.bias(m, x.scale, scales, spread / 4, shift)
        return self.op(op, [x.name, w, b], **attrs)

    def activate(self, y, act, channels, size):
        """Quantises the result of a product, behind the activation and, if it has a table, before."""
        real = SPREAD
        if act == "Relu":
            return self.qdq(self.op("Relu", [y]), real / 64, self.qmin, 64 / math.sqrt(2), channels, size)
        if act == "Clip":
            y = self.op("Clip", [y, self.scalar(FLOAT, 0.0), self.scalar(FLOAT, 6.0)])
            return self.qdq(y, 6 / 255, self.qmin, real * 255 / 6 / math.sqrt(2), channels, size)
        x = self.qdq(y, real / 32, self.mid, 32.0, channels, size)
        if act is None:
            return x
        if act == "Silu":
            gate = self.of_function("Sigmoid", self.op("Sigmoid", [x.name]), channels, size)
            return self.of_function("Silu", self.op("Mul", [x.name, gate.name]), channels, size)
        return self.of_function(act, self.op(act, [x.name], **FUNCTIONS[act][1]), channels, size)

    def conv_float(self, x, m, k, stride=1, group=1, pad=None, shift=(0,)):
        """(result that is not quantised, its size)"""
        pad = k // 2 if pad is None else pad
        y = self.product("Conv", x, m, [m, x.channels // group, k, k], shift, kernel_shape=[k, k],
                         strides=[stride] * 2, pads=[pad] * 4, group=group)
        return y, (x.size + 2 * pad - k) // stride + 1

    def conv(self, x, m, k, act, **shape):
        y, size = self.conv_float(x, m, k, **shape)
        return self.activate(y, act, m, size)

    def upconv(self, x, m):
        """Transposed convolution of 2 x 2, which doubles the size."""
        y = self.product("ConvTranspose", x, m, [x.channels, m, 2, 2], kernel_shape=[2, 2], strides=[2, 2])
        return self.activate(y, None, m, 2 * x.size)

    def gemm(self, x, m, act=None):
        return self.activate(self.product("Gemm", x, m, [m, x.channels], transB=1), act, m, 0)

    def add(self, a, b, act=None):
        sd = math.hypot(a.scale * a.rms, b.scale * b.rms)
        y = self.op("Add", [a.name, b.name])
        if act is None:
            return self.qdq(y, sd / 32, self.mid, 32.0, a.channels, a.size)
        return self.qdq(self.op("Relu", [y]), sd / 48, self.qmin, 40.0, a.channels, a.size)

    def gate(self, x, g):
        """x times one factor per channel."""
        return self.qdq(self.op("Mul", [x.name, g.name]), x.scale, x.zp, x.rms * 0.55, x.channels, x.size)

    def max_pool(self, x, k, stride, pad=0, grow=1.0):
        """@grow: ratio of the rms of the maxima to that of the values."""
        return self.same("MaxPool", x, x.rms * grow, size=(x.size + 2 * pad - k) // stride + 1,
                         kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4)

    def average(self, x, zp=None):
        return self.same("GlobalAveragePool", x, x.rms, zp, size=1)

    def flatten(self, x, zp=None):
        channels = x.channels * max(x.size, 1) ** 2
        return self.same("Flatten", x, zp=zp, size=0)._replace(channels=channels)

    def concat(self, values):
        scale = max(v.scale for v in values)
        zp = values[0].zp if all(v.zp == values[0].zp for v in values) else self.mid
        channels = sum(v.channels for v in values)
        mean = math.sqrt(sum(v.channels * (v.scale * v.rms) ** 2 for v in values) / channels)
        return self.qdq(self.op("Concat", [v.name for v in values], axis=1), scale, zp, mean / scale,
                        channels, values[0].size)

    def upsample(self, x):
        """Nearest neighbours, twice the size."""
        return self.same("Resize", x, size=2 * x.size, inputs=["", self.floats([4], [1, 1, 2, 2])],
                         mode="nearest", coordinate_transformation_mode="asymmetric",
                         nearest_mode="floor")

    # ---- the file ----

    def output(self, name, dims, kind=FLOAT):
        self.outputs.append(value_info(name, kind, dims))

    def save(self, path, name, bytes_out=False):
        """@bytes_out: the model ends before its last DequantizeLinear, as the record of it does."""
        nodes, outputs = self.nodes, self.outputs
        if bytes_out and self.quantised:
            dims = self.last_dims
            nodes, outputs = nodes[:-1], [value_info(self.last_quantised, self.kind, dims)]
        data = model(nodes, name, self.init, [value_info("image", FLOAT, self.dims)], outputs, OPSET)
        with open(path, "wb") as f:
            f.write(data)
        return len(data)

    def result(self, x):
        """@x becomes the model's only output."""
        self.last, self.outputs = x, []
        self.last_dims = [1, x.channels] + [x.size] * 2 * (x.size > 0)
        self.output(x.name, self.last_dims)


def write_image(path, dims, seed):
    """A smooth picture with noise as float32 .npy [1, C, H, W], every value a multiple of 1/255."""
    rng, (_, channels, high, wide) = random.Random(seed), dims
    values = array.array("f")
    for c in range(channels):
        fx, fy, phase = rng.uniform(0.02, 0.2), rng.uniform(0.02, 0.2), rng.uniform(0, 6)
        for y in range(high):
            noise = rng.randbytes(wide)
            values.extend(min(255, int(100 + 90 * math.sin(fx * x + fy * y + phase + c))
                              + noise[x] // 4) / 255 for x in range(wide))
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({', '.join(map(str, dims))}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
                + values.tobytes())
