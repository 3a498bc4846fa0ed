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
SPREAD = 1.1      # standard deviation of a product's results, before the activation
WIDE_SPREAD = 2.6 # before an activation of which narrow values would shrink or grow by layer
DEVIATIONS = 6.4  # the range of a result reaches so many standard deviations,
HALF_DEVIATIONS = 8    # behind Relu
TABLE_DEVIATIONS = 5   # behind a function by table
MARGIN = 0.02     # of a function's range on both sides, so that its ends are not those of the type

# A quantised value: rms and mean are the expected root mean square and mean of (value - zero point)
# in steps. Images are squares of @size; a vector has size 0.
Value = collections.namedtuple("Value", "name scale zp rms mean channels size")

# Root mean square and mean of max(x, 0), where x is normal of deviation 1.
HALF_RMS, HALF_MEAN = 1 / math.sqrt(2), 1 / math.sqrt(2 * math.pi)


def hard_swish(x):
    return x * min(max(x / 6 + 0.5, 0), 1)


def hard_sigmoid(x):
    return min(max(x / 6 + 0.5, 0), 1)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


# Activations by table: function, deviation of its operand, attributes.
FUNCTIONS = {"HardSwish": (hard_swish, WIDE_SPREAD, {}),
             "HardSigmoid": (hard_sigmoid, SPREAD, {"alpha": 1 / 6}),
             "Sigmoid": (sigmoid, WIDE_SPREAD, {}),
             "Silu": (lambda x: x * sigmoid(x), WIDE_SPREAD, {})}


def spread_before(act):
    return FUNCTIONS[act][1] if act in FUNCTIONS else SPREAD


def moments(function, spread):
    """(least, largest, rms, mean) of the function of normal values."""
    points = [TABLE_DEVIATIONS * i / 300 for i in range(-300, 301)]
    weights = [math.exp(-z * z / 2) for z in points]
    values = [function(spread * z) for z in points]
    square = sum(w * v * v for w, v in zip(weights, values)) / sum(weights)
    mean = sum(w * v for w, v in zip(weights, values)) / sum(weights)
    return min(0.0, *values), max(values), math.sqrt(square), mean


# Bytes by uniform bytes. Of trained weights quantised by channel, 1 to 2 % of the pairs of adjacent inputs
# exceed +-128 together; of the quantiles of Laplace's distribution, 1 %, and of uniform weights, 24 %.
# Where all channels have one scale, that of the widest one, most weights are smaller: "halved" are half of those.
def laplace(most):
    scale = most / math.log(256)
    return bytes(round(math.copysign(scale * math.log(1 - abs(b - 127.5) / 128), 127.5 - b)) & 255
                 for b in range(256))


WEIGHTS = {
    "uniform": bytes(0 if b == 128 else b for b in range(256)),
    "laplace": laplace(127),
    "halved": laplace(64),
}


def rms_of(table):
    return math.sqrt(sum((b - 256 if b > 127 else b) ** 2 for b in table) / 256)


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
        self.weights = "uniform"    # their distribution
        self.sign = None    # form of the signs of a binary network; None: its own
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

    def qdq(self, x, scale, zp, rms, mean, channels, size):
        y = x
        if self.quantised:
            s, z = self.scalar(FLOAT, scale), self.scalar(self.kind, zp)
            self.last_quantised = self.op("QuantizeLinear", [x, s, z])
            y = self.op("DequantizeLinear", [self.last_quantised, s, z])
        self.floats_of[y] = x
        return Value(y, scale, zp, rms, mean, channels, size)

    def float_of(self, x):
        """What was quantised to @x."""
        return self.floats_of[x.name]

    def image(self):
        """Pixels 0..1, uniform."""
        return self.qdq("image", 1 / 255, self.qmin, 255 / math.sqrt(3), 255 / 2, *self.dims[1:3])

    def of_function(self, name, y, channels, size):
        least, largest, rms, mean = moments(*FUNCTIONS[name][:2])
        margin = MARGIN * (largest - least)
        scale = (largest - least + 2 * margin) / 255
        zp = self.qmin + round((margin - least) / scale)
        return self.qdq(y, scale, zp, rms / scale, mean / scale, channels, size)

    def same(self, op, x, size, grow=1.0, inputs=(), **attrs):
        """An operator whose results have the parameters of its operand. @grow: of rms and mean."""
        return self.qdq(self.op(op, [x.name, *inputs], **attrs), x.scale, x.zp, x.rms * grow,
                        x.mean * grow, x.channels, size)

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

    def product(self, op, x, m, dims, deviation=SPREAD, shift=(0,), **attrs):
        """Conv, ConvTranspose or Gemm with bias, not quantised. @deviation: of the results. @shift:
        added to the biases in turn.
        """
        inner = op == "ConvTranspose"
        rows, channels, taps = (1, dims[0], m * math.prod(dims[2:])) if inner else \
            (m, dims[1], math.prod(dims[2:]))
        raw = self.rng.randbytes(math.prod(dims)).translate(WEIGHTS[self.weights])
        prune = self.masks and self.layers and attrs.get("group", 1) == 1
        terms = channels * (1 if inner else taps)
        if prune:
            raw = self.masks.apply(raw, rows, channels, taps)
            terms = terms // channels * blocks.kept_channels(channels, self.masks.kept)
        self.layers += 1
        rms = 73.3 if self.weights == "uniform" else rms_of(WEIGHTS[self.weights])
        spread = x.rms * rms * math.sqrt(terms)
        scale = deviation / (spread * x.scale)
        scales = array.array("f", (scale * self.rng.uniform(0.8, 1.25) for _ in range(m)))
        w = self.dequantised((dims, raw), m, scales, 1 if inner else 0)
        b = self.bias(m, x.scale, scales, spread / 4, shift)
        return self.op(op, [x.name, w, b], **attrs)

    def signed(self, y, deviation, channels, size):
        """Quantises values of mean 0."""
        steps = 127.5 / DEVIATIONS
        return self.qdq(y, deviation / steps, self.mid, steps, 0, channels, size)

    def activate(self, y, act, channels, size):
        """Quantises the result of a product, behind the activation and, if it has a table, before."""
        if act == "Relu":
            y, scale = self.op("Relu", [y]), SPREAD * HALF_DEVIATIONS / 255
        elif act == "Clip":
            y = self.op("Clip", [y, self.scalar(FLOAT, 0.0), self.scalar(FLOAT, 6.0)])
            scale = 6 / 255
        if act in ("Relu", "Clip"):
            steps = SPREAD / scale
            return self.qdq(y, scale, self.qmin, steps * HALF_RMS, steps * HALF_MEAN, channels, size)
        x = self.signed(y, spread_before(act), channels, size)
        if act is None:
            return x
        if act == "Silu":
            gate = self.of_function("Sigmoid", self.op("Sigmoid", [x.name]), channels, size)
            return self.of_function("Silu", self.op("Mul", [x.name, gate.name]), channels, size)
        return self.of_function(act, self.op(act, [x.name], **FUNCTIONS[act][2]), channels, size)

    def conv_float(self, x, m, k, act=None, stride=1, group=1, pad=None, shift=(0,)):
        """(result that is not quantised, its size)"""
        pad = k // 2 if pad is None else pad
        y = self.product("Conv", x, m, [m, x.channels // group, k, k], spread_before(act), shift,
                         kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4, group=group)
        return y, (x.size + 2 * pad - k) // stride + 1

    def conv(self, x, m, k, act, **shape):
        y, size = self.conv_float(x, m, k, act, **shape)
        return self.activate(y, act, m, size)

    def upconv(self, x, m):
        """Transposed convolution of 2 x 2, which doubles the size."""
        y = self.product("ConvTranspose", x, m, [x.channels, m, 2, 2], SPREAD, kernel_shape=[2, 2],
                         strides=[2, 2])
        return self.signed(y, SPREAD, m, 2 * x.size)

    def gemm(self, x, m, act=None):
        return self.activate(self.product("Gemm", x, m, [m, x.channels], spread_before(act), transB=1), act, m, 0)

    def add(self, a, b, act=None):
        """@b has mean 0 where the sum ends in Relu."""
        ra, rb, ma, mb = (x.scale * v for v, x in ((a.rms, a), (b.rms, b), (a.mean, a), (b.mean, b)))
        y, square, mean = self.op("Add", [a.name, b.name]), ra ** 2 + rb ** 2 + 2 * ma * mb, ma + mb
        if act is None:
            least = sum(x.scale * (x.zp - self.qmin) for x in (a, b))
            reach = math.sqrt(square) * DEVIATIONS
            scale = min(least + 1.2 * reach, 2 * reach) / 255
            zp = self.qmin + min(round(least / scale), 128)
            return self.qdq(y, scale, zp, math.sqrt(square) / scale, mean / scale, a.channels, a.size)
        scale = math.sqrt(square) * HALF_DEVIATIONS / 255
        if ma:
            square, mean = ra ** 2 + 0.75 * rb ** 2, ma + 0.2 * rb
        else:
            square, mean = square / 2, HALF_MEAN * math.sqrt(square)
        return self.qdq(self.op("Relu", [y]), scale, self.qmin, math.sqrt(square) / scale, mean / scale,
                        a.channels, a.size)

    def gate(self, x, g):
        """x times one factor per channel, from 0 to 1."""
        y = self.op("Mul", [x.name, g.name])
        if x.zp == self.qmin:
            return self.qdq(y, 0.6 * x.scale, x.zp, x.rms * 0.75, x.mean * 0.75, x.channels, x.size)
        return self.qdq(y, x.scale, x.zp, x.rms * 0.55, x.mean / 2, x.channels, x.size)

    def max_pool(self, x, k, stride, pad=0, grow=1.0):
        """@grow: ratio of the rms of the maxima to that of the values."""
        return self.same("MaxPool", x, (x.size + 2 * pad - k) // stride + 1, grow,
                         kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4)

    def average(self, x):
        """Means of images, whose rms is between the values' rms and mean."""
        grow = math.sqrt(0.7 * x.rms ** 2 + 0.3 * x.mean ** 2) / x.rms
        return self.same("GlobalAveragePool", x, 1, grow)

    def flatten(self, x):
        return self.same("Flatten", x, 0)._replace(channels=x.channels * max(x.size, 1) ** 2)

    def concat(self, values):
        least = max(v.scale * (v.zp - self.qmin) for v in values)
        most = max(v.scale * (self.qmin + 255 - v.zp) for v in values)
        scale = (least + most) / 255
        zp = self.qmin + round(least / scale)
        channels = sum(v.channels for v in values)
        square = sum(v.channels * (v.scale * v.rms) ** 2 for v in values) / channels
        mean = sum(v.channels * v.scale * v.mean for v in values) / channels
        return self.qdq(self.op("Concat", [v.name for v in values], axis=1), scale, zp,
                        math.sqrt(square) / scale, mean / scale, channels, values[0].size)

    def upsample(self, x):
        """Nearest neighbours, twice the size."""
        return self.same("Resize", x, 2 * x.size, inputs=["", self.floats([4], [1, 1, 2, 2])],
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
