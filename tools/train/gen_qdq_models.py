# SPDX-License-Identifier: MIT
"""Writes small seeded quantised ONNX models with an input and onnxruntime's output.

    python gen_qdq_models.py -o tests/data/qdq

One folder per model: model.onnx, input_0.npy, expected_0.npy (uint8 or int8, to
be met exactly). A model that onnxruntime runs in float between DQ and Q
(docs/numerics.md 6) is drawn again until no value is near a tie, so that
integer and float arithmetic have the same result.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import numerics as nm
import qdq_oracle

F = np.float32
MARGIN = 2e-3    # of a step of the output, for models onnxruntime runs in float


class Builder:
    """One graph under construction; every method returns the name of its output."""

    def __init__(self, rng, dtype, shape, quantised_input=False):
        self.rng, self.dtype = rng, np.dtype(dtype)
        self.nodes, self.init, self.count, self.margin = [], [], 0, np.inf
        lo, hi = nm.qrange(self.dtype)
        if quantised_input:
            self.x = rng.integers(lo, hi + 1, shape).astype(self.dtype)
        else:
            self.x = rng.standard_normal(shape).astype(F)

    def const(self, array):
        self.count += 1
        self.init.append(numpy_helper.from_array(np.asarray(array), f"c{self.count}"))
        return f"c{self.count}"

    def op(self, kind, inputs, domain="", **attrs):
        self.count += 1
        self.nodes.append(helper.make_node(kind, inputs, [f"t{self.count}"], domain=domain,
                                           name=f"{kind.lower()}{self.count}", **attrs))
        return f"t{self.count}"

    def model(self, output, elem):
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "case",
            [info("x", helper.np_dtype_to_tensor_dtype(self.x.dtype), self.x.shape)],
            [info(output, elem, None)], self.init)
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8,
                                 producer_name="rivulet-gen")

    def peek(self, name):
        """The float value of a tensor, from which its scale is chosen."""
        model = self.model(name, TensorProto.FLOAT)
        return qdq_oracle.ort_session(model).run(None, {"x": self.x})[0]

    def params(self, name, zp="any"):
        """A scale at which a few values saturate, and a zero point for the range."""
        v = np.sort(self.peek(name).reshape(-1).astype(np.float64))
        low, high = min(v[len(v) // 200], 0), max(v[-1 - len(v) // 200], 0)
        lo, hi = nm.qrange(self.dtype)
        if zp == "qmin":
            return F(high / 255), self.dtype.type(lo)
        scale = F((high - low) / 255)
        point = np.clip(round(lo - low / scale), lo, hi) if zp == "any" else zp
        return scale, self.dtype.type(point)

    def q(self, x, zp="any", scale=None):
        s, z = self.params(x, zp)
        s = s if scale is None else F(scale)
        with np.errstate(all="ignore"):
            real = self.peek(x).astype(np.float64) / s
        inside = np.abs(real) < 300
        self.margin = min(self.margin, np.abs(np.abs(real - np.floor(real)) - 0.5)[inside].min())
        return self.op("QuantizeLinear", [x, self.const(s), self.const(z)])

    def dq(self, q):
        node = next(n for n in self.nodes if n.output[0] == q)
        return self.op("DequantizeLinear", [q, *node.input[1:3]])

    def qdq(self, x, **how):
        return self.dq(self.q(x, **how))

    def same_q(self, x, kind, *inputs, **attrs):
        """Operator on DequantizeLinear output x, quantised with the parameters of x."""
        node = next(n for n in self.nodes if n.output[0] == x)
        return self.op("QuantizeLinear", [self.op(kind, [x, *inputs], **attrs), *node.input[1:3]])

    def same(self, x, kind, *inputs, **attrs):
        return self.dq(self.same_q(x, kind, *inputs, **attrs))

    def scale_of(self, x):
        """Of a DequantizeLinear output."""
        node = next(n for n in self.nodes if n.output[0] == x)
        return numpy_helper.to_array(next(t for t in self.init if t.name == node.input[1]))

    def weights(self, shape, axis, per_channel):
        w = self.rng.integers(-127, 128, shape).astype(np.int8)
        n = shape[axis]
        s = (np.exp2(self.rng.uniform(-8, -6, n)) if per_channel
             else np.exp2(self.rng.uniform(-8, -6))).astype(F)
        z = np.zeros(n, np.int8) if per_channel else np.int8(0)
        attrs = {"axis": axis} if per_channel else {}
        return self.op("DequantizeLinear", [self.const(w), self.const(s), self.const(z)], **attrs), s

    def bias(self, n, scale):
        b = self.const(self.rng.integers(-2000, 2000, n).astype(np.int32))
        attrs = {"axis": 0} if np.ndim(scale) else {}
        z = np.zeros(np.shape(scale), np.int32)
        return self.op("DequantizeLinear", [b, self.const(scale), self.const(z)], **attrs)

    def conv(self, x, cin, cout, k, group=1, per_channel=True, bias="int32", **attrs):
        w, ws = self.weights((cout, cin // group, *k), 0, per_channel)
        ins, scale = [x, w], (self.scale_of(x) * ws).astype(F)
        if bias == "int32":
            ins.append(self.bias(cout, scale))
        if bias == "float":
            ins.append(self.const(self.rng.standard_normal(cout).astype(F)))
        return self.op("Conv", ins, kernel_shape=list(k), group=group, **attrs)

    def gemm(self, x, cin, cout, per_channel=True, trans=True):
        w, ws = self.weights((cout, cin) if trans else (cin, cout), 0 if trans else 1, per_channel)
        scale = (self.scale_of(x) * ws).astype(F)
        return self.op("Gemm", [x, w, self.bias(cout, scale)], transB=int(trans))

    # QLinear form: quantised tensors carry (name, scale, zp)

    def raw(self, scale=0.05):
        lo, hi = nm.qrange(self.dtype)
        return "x", F(scale), self.dtype.type(self.rng.integers(lo // 2, hi // 2 + 1))

    def pair(self, scale, zp):
        return [self.const(scale), self.const(zp)]

    def out_params(self, spread):
        lo, hi = nm.qrange(self.dtype)
        return F(spread), self.dtype.type(self.rng.integers(lo // 2, hi // 2 + 1))

    def qconv(self, x, cin, cout, k, spread, wtype=np.int8, **attrs):
        lo, hi = nm.qrange(wtype)
        w = self.rng.integers(lo, hi + 1, (cout, cin, *k)).astype(wtype)
        per = wtype == np.int8
        ws = (np.exp2(self.rng.uniform(-8, -6, cout)) if per else 0.007)
        wz = np.zeros(cout, np.int8) if per else wtype(131)
        b = self.rng.integers(-2000, 2000, cout).astype(np.int32)
        ys, yz = self.out_params(spread)
        y = self.op("QLinearConv", [x[0], *self.pair(x[1], x[2]), self.const(w),
                                    *self.pair(np.asarray(ws, F), wz), *self.pair(ys, yz),
                                    self.const(b)], kernel_shape=list(k), **attrs)
        return y, ys, yz


def conv_relu_u8(rng):
    g = Builder(rng, np.uint8, (1, 3, 12, 12))
    y = g.op("Relu", [g.conv(g.qdq("x"), 3, 20, (3, 3), pads=[1, 1, 1, 1])])
    return g, g.q(y, zp="qmin")


def conv_strided_s8(rng):
    g = Builder(rng, np.int8, (1, 10, 13, 11))
    return g, g.q(g.conv(g.qdq("x"), 10, 33, (3, 5), strides=[2, 3], pads=[0, 2, 1, 1]))


def conv_float_bias_u8(rng):
    g = Builder(rng, np.uint8, (1, 16, 7, 7))
    x = g.qdq("x")
    y = g.qdq(g.conv(x, 16, 8, (1, 1), bias="float", per_channel=False))
    return g, g.q(g.conv(y, 8, 12, (3, 3), bias="none", pads=[1, 1, 1, 1]))


def conv_grouped_s8(rng):
    g = Builder(rng, np.int8, (1, 24, 9, 9))
    return g, g.q(g.conv(g.qdq("x"), 24, 20, (3, 3), group=4, pads=[1, 1, 1, 1]))


def depthwise_clip_u8(rng):
    """The middle of a MobileNet block: 1x1, Clip(0, 6), 3x3 depthwise, Clip, 1x1."""
    g = Builder(rng, np.uint8, (1, 16, 10, 10))

    def six(v):
        return g.qdq(g.op("Clip", [v, g.const(F(0)), g.const(F(6))]), zp="qmin",
                     scale=F(6) / F(255))
    y = six(g.conv(g.qdq("x"), 16, 40, (1, 1)))
    y = six(g.conv(y, 40, 40, (3, 3), group=40, strides=[2, 2], pads=[1, 1, 1, 1]))
    return g, g.q(g.conv(y, 40, 24, (1, 1)))


def conv_dilated_s8(rng):
    g = Builder(rng, np.int8, (1, 5, 16, 16))
    return g, g.q(g.conv(g.qdq("x"), 5, 17, (3, 3), dilations=[2, 3], pads=[2, 3, 2, 3]))


def conv_large_u8(rng):
    """The first layer of an AlexNet."""
    g = Builder(rng, np.uint8, (1, 3, 35, 35))
    y = g.op("Relu", [g.conv(g.qdq("x"), 3, 16, (11, 11), strides=[4, 4], pads=[2, 2, 2, 2])])
    return g, g.q(y, zp="qmin")


def residual(rng, dtype):
    g = Builder(rng, dtype, (1, 16, 8, 8))
    x = g.qdq("x")
    a = g.qdq(g.op("Relu", [g.conv(x, 16, 32, (3, 3), strides=[2, 2], pads=[1, 1, 1, 1])]),
              zp="qmin")
    b = g.qdq(g.conv(a, 32, 32, (3, 3), pads=[1, 1, 1, 1]))
    s = g.qdq(g.conv(x, 16, 32, (1, 1), strides=[2, 2]))
    y = g.qdq(g.op("Relu", [g.op("Add", [b, s])]), zp="qmin")
    z = g.qdq(g.conv(y, 32, 32, (3, 3), pads=[1, 1, 1, 1]))
    return g, g.q(g.op("Add", [y, z]))


def residual_s8(rng):
    return residual(rng, np.int8)


def residual_u8(rng):
    return residual(rng, np.uint8)


def add_const_u8(rng):
    """A constant scalar, then a constant per channel, as first and second operand."""
    g = Builder(rng, np.uint8, (1, 12, 6, 6))
    y = g.qdq(g.conv(g.qdq("x"), 12, 8, (3, 3), pads=[1, 1, 1, 1]))
    c = g.op("DequantizeLinear", [g.const(np.array([200], np.uint8)), g.const(F(0.03)),
                                  g.const(np.uint8(120))])
    y = g.qdq(g.op("Add", [c, y]))
    v = g.const(rng.integers(0, 256, (8, 1, 1)).astype(np.uint8))
    c = g.op("DequantizeLinear", [v, g.const(F(0.02)), g.const(np.uint8(9))])
    return g, g.q(g.op("Add", [y, c]))


def pools_u8(rng):
    g = Builder(rng, np.uint8, (1, 3, 22, 22))
    y = g.qdq(g.op("Relu", [g.conv(g.qdq("x"), 3, 18, (3, 3))]), zp="qmin")
    y = g.same(y, "MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = g.qdq(g.op("AveragePool", [y], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
              zp="qmin")
    return g, g.q(g.op("AveragePool", [y], kernel_shape=[2, 2], strides=[1, 1],
                       pads=[0, 0, 1, 1], count_include_pad=1))


def gap_gemm_s8(rng):
    g = Builder(rng, np.int8, (1, 4, 9, 7))
    y = g.qdq(g.op("Relu", [g.conv(g.qdq("x"), 4, 50, (3, 3))]), zp="qmin")
    y = g.qdq(g.op("GlobalAveragePool", [y]), zp="qmin")
    return g, g.q(g.gemm(g.same(y, "Flatten"), 50, 10))


def relu_any_zero_point_u8(rng):
    """onnxruntime runs this in float."""
    g = Builder(rng, np.uint8, (1, 6, 6, 6))
    y = g.op("Relu", [g.conv(g.qdq("x"), 6, 6, (3, 3), strides=[2, 2])])
    return g, g.q(y, zp=100)


def clip_binding_s8(rng):
    """Clip(0, 6) inside what the output can hold: onnxruntime runs this in float."""
    g = Builder(rng, np.int8, (1, 6, 6, 6))
    y = g.op("Clip", [g.conv(g.qdq("x"), 6, 6, (3, 3), strides=[2, 2]), g.const(F(0)),
                      g.const(F(6))])
    return g, g.q(y, zp=-100, scale=0.05)


def batch_norm_s8(rng):
    """Conv, BatchNormalization, Relu, Q: onnxruntime runs this in float."""
    g = Builder(rng, np.int8, (1, 6, 6, 6))
    y = g.conv(g.qdq("x"), 6, 6, (3, 3), strides=[2, 2])
    n = [rng.uniform(-1.5, 1.5, 6), rng.standard_normal(6), rng.standard_normal(6),
         rng.uniform(0.3, 3, 6)]
    y = g.op("BatchNormalization", [y, *(g.const(v.astype(F)) for v in n)], epsilon=1e-3)
    return g, g.q(g.op("Relu", [y]), zp="qmin")


def mlp_u8(rng):
    g = Builder(rng, np.uint8, (1, 3, 5, 5))
    y = g.same(g.qdq("x"), "Flatten")
    y = g.qdq(g.op("Relu", [g.gemm(y, 75, 40)]), zp="qmin")
    y = g.qdq(g.op("Relu", [g.gemm(y, 40, 33, per_channel=False, trans=False)]), zp="qmin")
    return g, g.q(g.gemm(y, 33, 7, trans=False))


def matmul_s8(rng):
    g = Builder(rng, np.int8, (1, 4, 6, 3))
    y = g.same(g.qdq("x"), "Reshape", g.const(np.array([1, -1], np.int64)))
    w, _ = g.weights((72, 21), 1, True)
    return g, g.q(g.op("MatMul", [y, w]))


def transpose_s8(rng):
    """NHWC in, NCHW inside, NHWC out."""
    g = Builder(rng, np.int8, (1, 8, 9, 3))
    y = g.same(g.qdq("x"), "Transpose", perm=[0, 3, 1, 2])
    y = g.qdq(g.conv(y, 3, 14, (3, 3), pads=[1, 1, 1, 1]))
    return g, g.same_q(y, "Transpose", perm=[0, 2, 3, 1])


def qlinear_u8(rng):
    """QLinear form; uint8 weights with a zero point."""
    g = Builder(rng, np.uint8, (1, 9, 11, 11), quantised_input=True)
    y = g.qconv(g.raw(), 9, 24, (3, 3), 0.35, wtype=np.uint8, pads=[1, 1, 1, 1])
    p = g.op("MaxPool", [y[0]], kernel_shape=[2, 2], strides=[2, 2])
    z = g.qconv((p, y[1], y[2]), 24, 8, (1, 1), 1.1)
    f = g.op("Reshape", [z[0], g.const(np.array([1, 200], np.int64))])
    w = rng.integers(0, 256, (200, 11)).astype(np.uint8)
    return g, g.op("QLinearMatMul", [f, *g.pair(z[1], z[2]), g.const(w),
                                     *g.pair(F(0.01), np.uint8(127)), *g.pair(*g.out_params(9.0))])


def qlinear_s8(rng):
    g = Builder(rng, np.int8, (1, 8, 9, 9), quantised_input=True)
    x = g.raw()
    a = g.qconv(x, 8, 16, (3, 3), 0.4, pads=[1, 1, 1, 1])
    b = g.qconv(x, 8, 16, (1, 1), 0.15)
    s, z = g.out_params(0.45)
    y = g.op("QLinearAdd", [a[0], *g.pair(*a[1:]), b[0], *g.pair(*b[1:]), *g.pair(s, z)],
             "com.microsoft")
    ps, pz = g.out_params(0.1)
    p = g.op("QLinearGlobalAveragePool", [y, *g.pair(s, z), *g.pair(ps, pz)], "com.microsoft",
             channels_last=0)
    w = rng.integers(-128, 128, (16, 12)).astype(np.int8)
    c = rng.integers(-500, 500, 12).astype(np.int32)
    return g, g.op("QGemm", [g.op("Flatten", [p]), *g.pair(ps, pz), g.const(w),
                             *g.pair(F(0.02), np.int8(0)), g.const(c), *g.pair(*g.out_params(0.2))],
                   "com.microsoft")


FLOAT_IN_ORT = ("relu_any_zero_point_u8", "clip_binding_s8", "batch_norm_s8")
MODELS = [conv_relu_u8, conv_strided_s8, conv_float_bias_u8, conv_grouped_s8, depthwise_clip_u8,
          conv_dilated_s8, conv_large_u8, residual_s8, residual_u8, add_const_u8, pools_u8,
          gap_gemm_s8, relu_any_zero_point_u8, clip_binding_s8, batch_norm_s8, mlp_u8, matmul_s8,
          transpose_s8, qlinear_u8, qlinear_s8]


def generate(make, seed):
    """(model, input, output) of the first draw without values near a tie."""
    for attempt in range(1000):
        g, out = make(np.random.default_rng([seed, MODELS.index(make), attempt]))
        if make.__name__ in FLOAT_IN_ORT and g.margin < MARGIN:
            continue
        model = g.model(out, helper.np_dtype_to_tensor_dtype(g.dtype))
        got = qdq_oracle.ort_session(model).run(None, {"x": g.x})[0]
        want = qdq_oracle.Oracle(model).run({"x": g.x})[out]
        if not np.array_equal(got, want):
            raise SystemExit(f"{make.__name__}: onnxruntime and the oracle differ in "
                             f"{np.count_nonzero(got != want)} of {got.size} values")
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info(
            out, helper.np_dtype_to_tensor_dtype(got.dtype), got.shape))
        return model, g.x, got
    raise SystemExit(f"{make.__name__}: every draw lies near a tie")


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("-o", "--output", type=pathlib.Path, required=True)
    ap.add_argument("--seed", type=int, default=20261121)
    opt = ap.parse_args()
    total = 0
    for make in MODELS:
        model, x, y = generate(make, opt.seed)
        onnx.checker.check_model(model)
        folder = opt.output / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(model, folder / "model.onnx")
        np.save(folder / "input_0.npy", x)
        np.save(folder / "expected_0.npy", y)
        total += sum(f.stat().st_size for f in folder.iterdir())
        lo, hi = nm.qrange(y.dtype)
        print(f"{make.__name__:24} {str(y.shape):18} {len(np.unique(y)):4} distinct values, "
              f"{100 * np.mean((y == lo) | (y == hi)):3.0f} % at the ends")
    print(f"{len(MODELS)} models, {total} bytes, all equal to the oracle")


if __name__ == "__main__":
    main()
