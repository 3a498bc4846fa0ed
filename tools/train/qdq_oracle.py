# SPDX-License-Identifier: MIT
"""Executes a quantised ONNX graph (QDQ or QLinear form) in integers.

Every recording script compares its results with this implementation of
docs/numerics.md, which shares no code with onnxruntime. Quantised tensors are numpy
arrays plus their Params; a float tensor exists only as a graph input or as the
result of a last DequantizeLinear.
"""
import dataclasses

import numpy as np
import onnx
from onnx import numpy_helper

import numerics as nm

F = np.float32
PASS = ("MaxPool", "Flatten", "Reshape", "Transpose", "Identity")


@dataclasses.dataclass
class Params:
    scale: np.ndarray
    zp: np.ndarray
    axis: int = 1

    def same(self, other):
        return np.array_equal(self.scale, other.scale) and np.array_equal(self.zp, other.zp)


def attrs(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def reshape_dims(x, dims):
    return [x.shape[i] if v == 0 else int(v) for i, v in enumerate(dims)]


class Oracle:
    """run(feeds) returns {name: array} for every tensor it computed."""

    def __init__(self, model):
        self.graph = model.graph
        self.const = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.producer = {o: n for n in model.graph.node for o in n.output}
        self.inputs = [i.name for i in model.graph.input if i.name not in self.const]
        self.value = {}

    def run(self, feeds):
        self.value = dict(feeds)
        for node in self.graph.node:
            handler = getattr(self, "op_" + node.op_type, None)
            if handler is not None:
                self.value[node.output[0]] = handler(node)
        return self.value

    # -- helpers

    def get(self, name, default=None):
        if not name:
            return default
        return self.const[name] if name in self.const else self.value[name]

    def opt(self, node, i, default=None):
        return self.get(node.input[i], default) if i < len(node.input) else default

    def params(self, node, first):
        """Params of the (scale, zero point) pair at inputs first, first + 1."""
        scale = self.get(node.input[first])
        zp = self.opt(node, first + 1, np.zeros(scale.shape, np.uint8))
        return Params(scale, zp, attrs(node).get("axis", 1))

    def dq(self, name):
        """(quantised array, Params) behind a DequantizeLinear output."""
        node = self.producer[name]
        assert node.op_type == "DequantizeLinear", f"{name} does not come from DequantizeLinear"
        return self.get(node.input[0]), self.params(node, 1)

    def bias(self, name, scale):
        """int32 bias of the given scale: already quantised, or a float constant."""
        if not name:
            return None
        if name in self.const:
            return np.rint(self.const[name] / np.broadcast_to(scale, self.const[name].shape)
                           ).astype(np.int32)
        array, p = self.dq(name)
        assert array.dtype == np.int32
        assert np.array_equal(np.broadcast_to(p.scale, np.shape(scale)), scale), \
            f"bias {name} is not of scale x * w"
        return array

    # -- the operators under a QuantizeLinear: each takes the node and the output Params

    def conv_args(self, node):
        a = attrs(node)
        return (a.get("strides", [1, 1]), a.get("pads", [0] * 4), a.get("dilations", [1, 1]),
                a.get("group", 1))

    def base_Conv(self, node, y):
        (x, xp), (w, wp) = self.dq(node.input[0]), self.dq(node.input[1])
        bias = self.bias(node.input[2] if len(node.input) > 2 else "",
                         (F(xp.scale) * wp.scale).astype(F))
        return nm.qlinear_conv(x, xp.scale, xp.zp, w, wp.scale, wp.zp, y.scale, y.zp, bias,
                               *self.conv_args(node))

    def base_Gemm(self, node, y):
        (a, ap), (b, bp), at = self.dq(node.input[0]), self.dq(node.input[1]), attrs(node)
        assert not at.get("transA", 0) and at.get("beta", 1.0) == 1.0
        alpha = F(at.get("alpha", 1.0))
        scale = (F(alpha * F(ap.scale)) * bp.scale).astype(F)
        c = self.bias(node.input[2] if len(node.input) > 2 else "", scale)
        return nm.qgemm(a, ap.scale, ap.zp, b.T if at.get("transB", 0) else b, bp.scale, bp.zp, c,
                        y.scale, y.zp, alpha)

    def base_MatMul(self, node, y):
        (a, ap), (b, bp) = self.dq(node.input[0]), self.dq(node.input[1])
        return nm.qlinear_matmul(a, ap.scale, ap.zp, b, bp.scale, bp.zp, y.scale, y.zp)

    def base_Add(self, node, y):
        (a, ap), (b, bp) = self.dq(node.input[0]), self.dq(node.input[1])
        return self.add(a, ap, b, bp, y)

    def add(self, a, ap, b, bp, y):
        """[N, C, H, W] + [C, 1, 1] has b constant per span: the same formula."""
        if a.size < b.size:
            a, ap, b, bp = b, bp, a, ap
        if a.shape != b.shape:
            b = np.broadcast_to(b, a.shape)
        return nm.qlinear_add(a, ap.scale, ap.zp, b, bp.scale, bp.zp, y.scale, y.zp)

    def base_Mul(self, node, y):
        (a, ap), (b, bp) = self.dq(node.input[0]), self.dq(node.input[1])
        return nm.qlinear_mul(a, ap.scale, ap.zp, b, bp.scale, bp.zp, y.scale, y.zp)

    def base_GlobalAveragePool(self, node, y):
        x, xp = self.dq(node.input[0])
        return nm.qlinear_global_average_pool(x, xp.scale, xp.zp, y.scale, y.zp)

    def base_AveragePool(self, node, y):
        (x, xp), a = self.dq(node.input[0]), attrs(node)
        return nm.qlinear_average_pool(x, xp.scale, xp.zp, y.scale, y.zp, a["kernel_shape"],
                                       a.get("strides", [1, 1]), a.get("pads", [0] * 4),
                                       a.get("count_include_pad", 0))

    def base_DequantizeLinear(self, node, y):
        x, xp = self.get(node.input[0]), self.params(node, 1)
        if xp.same(y):
            return x
        return nm.quantize_linear(nm.dequantize_linear(x, xp.scale, xp.zp), y.scale, y.zp,
                                  y.zp.dtype)

    def base_BatchNormalization(self, node, y):
        """After a Conv: folded into its scale and bias, in float64."""
        conv = self.producer[node.input[0]]
        g, b, mean, var = (self.get(n).astype(np.float64) for n in node.input[1:5])
        k = g / np.sqrt(var + attrs(node).get("epsilon", 1e-5))
        (x, xp), (w, wp) = self.dq(conv.input[0]), self.dq(conv.input[1])
        acc = nm.conv_acc(x, xp.zp, w, wp.zp, None, *self.conv_args(conv)).astype(np.float64)
        shape = (1, -1, 1, 1)
        ws = np.broadcast_to(wp.scale, k.shape).astype(np.float64) * float(xp.scale)
        real = acc * (ws * k).reshape(shape) + (b - mean * k).reshape(shape)
        if len(conv.input) > 2:
            bias = self.bias(conv.input[2], (F(xp.scale) * wp.scale).astype(F))
            real += (bias * ws * k).reshape(shape)
        return nm.quantize_linear(real, y.scale, y.zp, y.zp.dtype)

    # -- the operators between a QuantizeLinear and its producer

    def apply_pass(self, node, x):
        a = attrs(node)
        if node.op_type == "MaxPool":
            return nm.max_pool(x, a["kernel_shape"], a.get("strides", [1, 1]),
                               a.get("pads", [0] * 4))
        if node.op_type == "Flatten":
            axis = a.get("axis", 1)
            return x.reshape(int(np.prod(x.shape[:axis])), -1)
        if node.op_type == "Reshape":
            return x.reshape(reshape_dims(x, self.get(node.input[1])))
        return x.transpose(a["perm"]) if node.op_type == "Transpose" else x

    def clamp(self, node, x, y):
        """Relu or Clip as bounds on quantised values."""
        lo, hi = (F(0), None) if node.op_type == "Relu" else \
            (self.opt(node, 1), self.opt(node, 2))
        if lo is not None:
            x = np.maximum(x, nm.quantize_linear(lo, y.scale, y.zp, x.dtype))
        if hi is not None:
            x = np.minimum(x, nm.quantize_linear(hi, y.scale, y.zp, x.dtype))
        return x

    def op_QuantizeLinear(self, node):
        y = self.params(node, 1)
        name, above = node.input[0], []
        while name in self.producer and self.producer[name].op_type in PASS + ("Relu", "Clip"):
            above.append(self.producer[name])
            name = above[-1].input[0]
        if name in self.producer:
            base = self.producer[name]
            q = getattr(self, "base_" + base.op_type)(base, y)
        else:
            q = nm.quantize_linear(self.get(name), y.scale, y.zp, y.zp.dtype)
        for n in reversed(above):
            q = self.apply_pass(n, q) if n.op_type in PASS else self.clamp(n, q, y)
        return q

    def op_DequantizeLinear(self, node):
        x, p = self.get(node.input[0]), self.params(node, 1)
        if p.scale.ndim == 0:
            return nm.dequantize_linear(x, p.scale, p.zp)
        shape = [-1 if i == p.axis % x.ndim else 1 for i in range(x.ndim)]
        return nm.dequantize_linear(x, p.scale.reshape(shape), p.zp.reshape(shape))

    # -- the QLinear form

    def op_QLinearConv(self, node):
        x, w = self.get(node.input[0]), self.get(node.input[3])
        xp, wp, y = (self.params(node, i) for i in (1, 4, 6))
        return nm.qlinear_conv(x, xp.scale, xp.zp, w, wp.scale, wp.zp, y.scale, y.zp,
                               self.opt(node, 8), *self.conv_args(node))

    def op_QLinearMatMul(self, node):
        a, b = self.get(node.input[0]), self.get(node.input[3])
        ap, bp, y = (self.params(node, i) for i in (1, 4, 6))
        return nm.qlinear_matmul(a, ap.scale, ap.zp, b, bp.scale, bp.zp, y.scale, y.zp)

    def op_QGemm(self, node):
        a, b, at = self.get(node.input[0]), self.get(node.input[3]), attrs(node)
        ap, bp, y = (self.params(node, i) for i in (1, 4, 7))
        return nm.qgemm(a, ap.scale, ap.zp, b.T if at.get("transB", 0) else b, bp.scale, bp.zp,
                        self.opt(node, 6), y.scale, y.zp, at.get("alpha", 1.0))

    def op_QLinearAdd(self, node):
        ap, bp, y = (self.params(node, i) for i in (1, 4, 6))
        return self.add(self.get(node.input[0]), ap, self.get(node.input[3]), bp, y)

    def op_QLinearMul(self, node):
        ap, bp, y = (self.params(node, i) for i in (1, 4, 6))
        return nm.qlinear_mul(self.get(node.input[0]), ap.scale, ap.zp, self.get(node.input[3]),
                              bp.scale, bp.zp, y.scale, y.zp)

    def op_QLinearGlobalAveragePool(self, node):
        xp, y = self.params(node, 1), self.params(node, 3)
        return nm.qlinear_global_average_pool(self.get(node.input[0]), xp.scale, xp.zp, y.scale,
                                              y.zp)

    def op_pass_bytes(self, node):
        """A pass-through operator between quantised tensors, outside of DQ and Q."""
        x = self.value.get(node.input[0])
        if x is None or x.dtype not in (np.uint8, np.int8):
            return None
        return self.apply_pass(node, x)

    op_MaxPool = op_Flatten = op_Reshape = op_Transpose = op_Identity = op_pass_bytes


def session_options(model):
    """The options that onnxruntime needs (docs/numerics.md 7)."""
    import onnxruntime as ort
    int8 = any(t.data_type == onnx.TensorProto.INT8 for n in model.graph.node
               if n.op_type in ("QuantizeLinear", "QLinearConv") for t in model.graph.initializer
               if t.name == n.input[2])
    so = ort.SessionOptions()
    so.intra_op_num_threads = 2
    so.log_severity_level = 3
    so.add_session_config_entry("session.qdqisint8allowed", "1")
    if not int8:
        so.add_session_config_entry("session.x64quantprecision", "1")
    return so


def ort_session(model):
    import onnxruntime as ort
    return ort.InferenceSession(model.SerializeToString(), session_options(model),
                                providers=["CPUExecutionProvider"])
