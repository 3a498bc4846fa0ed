# SPDX-License-Identifier: MIT
"""Writes quantised ONNX files with Python's standard library only.

The bench models are too large to commit, so they are made where the benches
run, and that machine need not have numpy or onnx.
"""
import array
import math
import random
import struct

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7


def varint(n):
    n &= 2 ** 64 - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field_int(number, value):
    return varint(number << 3) + varint(value)


def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name, kind, dims, raw):
    return b"".join(field_int(1, d) for d in dims) + field_int(2, kind) + field(8, name) + field(9, raw)


def attribute(name, value):
    if isinstance(value, int):
        return field(1, name) + field_int(3, value) + field_int(20, 2)
    return field(1, name) + b"".join(field_int(8, v) for v in value) + field_int(20, 7)


def node(op, inputs, output, attrs):
    return (b"".join(field(1, i) for i in inputs) + field(2, output) + field(3, output + "_op")
            + field(4, op) + b"".join(field(5, attribute(k, v)) for k, v in attrs.items()))


def value_info(name, kind, dims):
    shape = b"".join(field(1, field_int(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field_int(1, kind) + field(2, shape)))


class Net:
    """A QDQ graph with random int8 weights.

    A tensor is (name of its DequantizeLinear output, scale, rms), where rms is
    the expected root mean square of value - zero point in steps. Scales follow from rms
    by the law of large numbers, so that activations neither saturate nor vanish.
    """

    def __init__(self, seed, dtype, dims):
        self.rng, self.nodes, self.init, self.count = random.Random(seed), [], [], 0
        self.kind = {"int8": INT8, "uint8": UINT8}[dtype]
        self.qmin, self.mid = {"int8": (-128, 0), "uint8": (0, 128)}[dtype]
        self.dims = dims

    def const(self, kind, dims, raw):
        self.count += 1
        self.init.append(tensor(f"c{self.count}", kind, dims, raw))
        return f"c{self.count}"

    def scalar(self, kind, value):
        code = {FLOAT: "<f", INT8: "b", UINT8: "B", INT32: "<i"}[kind]
        return self.const(kind, [], struct.pack(code, value))

    def op(self, kind, inputs, name=None, **attrs):
        self.count += 1
        name = name or f"{kind.lower()}{self.count}"
        self.nodes.append(node(kind, inputs, name, attrs))
        return name

    def qdq(self, x, scale, zp, rms):
        s, z = self.scalar(FLOAT, scale), self.scalar(self.kind, zp)
        self.quantised = self.op("QuantizeLinear", [x, s, z])
        return self.op("DequantizeLinear", [self.quantised, s, z]), scale, rms

    def image(self):
        """Pixels 0..1, uniform."""
        return self.qdq("image", 1 / 255, self.qmin, 255 / math.sqrt(3))

    def random_weights(self, m, dims, scale):
        """(DequantizeLinear output, scales): uniform in -127..127, a scale per channel near scale."""
        size = math.prod(dims)
        raw = self.rng.randbytes(size).replace(b"\x80", b"\x00")
        scales = array.array("f", (scale * self.rng.uniform(0.8, 1.25) for _ in range(m)))
        ins = [self.const(INT8, dims, raw), self.const(FLOAT, [m], scales.tobytes()),
               self.const(INT8, [m], bytes(m))]
        return self.op("DequantizeLinear", ins, axis=0), scales

    def bias(self, m, x_scale, scales, spread):
        """int32 of scale x * w; the product is rounded to float32 as the quantiser does."""
        xs = struct.unpack("<f", struct.pack("<f", x_scale))[0]
        raw = array.array("i", (int(self.rng.gauss(0, spread)) for _ in range(m)))
        ins = [self.const(INT32, [m], raw.tobytes()),
               self.const(FLOAT, [m], array.array("f", (xs * s for s in scales)).tobytes()),
               self.const(INT32, [m], bytes(4 * m))]
        return self.op("DequantizeLinear", ins, axis=0)

    def layer(self, op, x, m, dims, act, **attrs):
        """Conv or Gemm with bias; act is None, "Relu" or "Clip" (0..6)."""
        name, x_scale, rms = x
        spread = rms * 73.3 * math.sqrt(math.prod(dims[1:]))
        real = 1.8    # standard deviation of the result before the activation
        w, scales = self.random_weights(m, dims, real / (spread * x_scale))
        y = self.op(op, [name, w, self.bias(m, x_scale, scales, spread / 4)], **attrs)
        if act is None:
            return self.qdq(y, real / 32, self.mid, 32.0)
        if act == "Relu":
            return self.qdq(self.op("Relu", [y]), real / 64, self.qmin, 64 / math.sqrt(2))
        y = self.op("Clip", [y, self.scalar(FLOAT, 0.0), self.scalar(FLOAT, 6.0)])
        return self.qdq(y, 6 / 255, self.qmin, real * 255 / 6 / math.sqrt(2))

    def conv(self, x, cin, cout, k, act, stride=1, group=1):
        return self.layer("Conv", x, cout, [cout, cin // group, k, k], act, kernel_shape=[k, k],
                          strides=[stride, stride], pads=[k // 2] * 4, group=group)

    def add(self, a, b):
        ra, rb = a[1] * a[2], b[1] * b[2]
        return self.qdq(self.op("Add", [a[0], b[0]]), math.hypot(ra, rb) / 32, self.mid, 32.0)

    def same(self, op, x, rms, zp, **attrs):
        return self.qdq(self.op(op, [x[0]], **attrs), x[1], zp, rms)

    def save(self, path, output, out_dims, name, quantised=False):
        """@quantised: the model ends before its last DequantizeLinear, as the record of it does."""
        nodes, kind = (self.nodes[:-1], self.kind) if quantised else (self.nodes, FLOAT)
        output = self.quantised if quantised else output
        graph = (b"".join(field(1, n) for n in nodes) + field(2, name)
                 + b"".join(field(5, t) for t in self.init)
                 + field(11, value_info("image", FLOAT, self.dims))
                 + field(12, value_info(output, kind, out_dims)))
        opset = field_int(2, 13)
        model = field_int(1, 8) + field(2, "rivulet-gen") + field(7, graph) + field(8, opset)
        with open(path, "wb") as f:
            f.write(model)
        return len(model)


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
