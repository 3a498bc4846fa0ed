# SPDX-License-Identifier: MIT
"""Converts a quantised network of the zoo from ONNX to .tflite, int8, without TensorFlow.

The architecture is the same: shapes, layers, fused activations, quantisation per channel. Zero
points and scales are constants, because they change no time. A node before the last product that has
no counterpart is an error, and the network then has no figure of XNNPACK. What has none behind the
last product is left out: the boxes of a detector, for example. The peer then does less than the ONNX
model, and the ratio is the more severe for it.
"""
import sys

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as s
from onnx import numpy_helper, shape_inference

B, T = s.BuiltinOperator, s.TensorType
# The versions of operators that have int8, and weights quantised per channel.
VERSIONS = {B.RESHAPE: 1, B.CONV_2D: 3, B.DEPTHWISE_CONV_2D: 3, B.FULLY_CONNECTED: 4, B.ADD: 2,
            B.MAX_POOL_2D: 2, B.MEAN: 2, B.CONCATENATION: 2}
PRODUCTS = ("Conv", "Gemm")
TO_NHWC, TO_NCHW = [0, 2, 3, 1], [0, 3, 1, 2]


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


class Converter:
    def __init__(self, model):
        graph = shape_inference.infer_shapes(model).graph
        self.graph = graph
        self.const = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.shape = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
                      for v in [*graph.input, *graph.output, *graph.value_info]}
        self.tensors, self.operators, self.codes = [], [], []
        self.buffers = [s.BufferT()]
        self.at = {}    # ONNX value: tensor
        self.raw = {}   # ONNX value: int8 or int32 constant behind a DequantizeLinear

    # ---- tensors ----

    def tensor(self, dims, kind=T.INT8, data=None, scale=(0.05,), axis=0):
        t = s.TensorT()
        t.name, t.shape, t.type = f"t{len(self.tensors)}", list(dims), kind
        t.buffer = 0
        if data is not None:
            b = s.BufferT()
            b.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.buffers.append(b)
            t.buffer = len(self.buffers) - 1
        if kind in (T.INT8, T.INT32) and scale is not None:
            q = s.QuantizationParametersT()
            q.scale, q.zeroPoint = list(scale), [0] * len(scale)
            q.quantizedDimension = axis
            t.quantization = q
        self.tensors.append(t)
        return len(self.tensors) - 1

    def dims(self, name):
        d = self.shape[name]
        return [d[0], *d[2:], d[1]] if len(d) == 4 else d

    def op(self, code, inputs, outputs, kind=None, options=None):
        if code not in self.codes:
            self.codes.append(code)
        o = s.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = self.codes.index(code), inputs, outputs
        if kind is not None:
            o.builtinOptionsType, o.builtinOptions = kind, options
        self.operators.append(o)

    def value(self, name):
        return self.at[name]

    def out(self, node, scale=(0.05,)):
        """The tensor of a node's result."""
        self.at[node.output[0]] = self.tensor(self.dims(node.output[0]), scale=scale)
        return self.at[node.output[0]]

    # ---- nodes ----

    def quantizer(self, node):
        """DequantizeLinear(QuantizeLinear(x)) is the tensor of x; of a constant, its integers."""
        name = node.input[0]
        if name in self.const:
            self.raw[node.output[0]] = self.const[name]
        else:
            self.at[node.output[0]] = self.at[name]

    def padding(self, a, side, kernel, stride):
        if not any(a.get("pads", [0])):
            return s.Padding.VALID
        size = (side + 2 * a["pads"][0] - kernel) // stride + 1
        if size != -(-side // stride):
            raise NotImplementedError("padding")
        return s.Padding.SAME

    def weights(self, node, order, axis):
        w = self.raw[node.input[1]].transpose(order)
        channels = w.shape[axis]
        b = self.raw[node.input[2]] if len(node.input) > 2 else np.zeros(channels, np.int32)
        return (self.tensor(w.shape, data=w, scale=[0.002] * channels, axis=axis),
                self.tensor([channels], T.INT32, b, [0.0001] * channels))

    def conv(self, node):
        a, x = attributes(node), self.shape[node.input[0]]
        k, stride = a["kernel_shape"][0], a.get("strides", [1])[0]
        depthwise = a.get("group", 1) > 1
        if depthwise and a["group"] != x[1]:
            raise NotImplementedError("groups")
        o = s.DepthwiseConv2DOptionsT() if depthwise else s.Conv2DOptionsT()
        o.strideW = o.strideH = stride
        o.dilationWFactor = o.dilationHFactor = 1
        o.padding = self.padding(a, x[2], k, stride)
        if depthwise:
            o.depthMultiplier = 1
        w, b = self.weights(node, (1, 2, 3, 0) if depthwise else (0, 2, 3, 1),
                            3 if depthwise else 0)
        names = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else \
            ("CONV_2D", "Conv2DOptions")
        self.op(getattr(B, names[0]), [self.value(node.input[0]), w, b], [self.out(node)],
                getattr(s.BuiltinOptions, names[1]), o)

    def gemm(self, node):
        w, b = self.weights(node, (0, 1), 0)
        self.op(B.FULLY_CONNECTED, [self.value(node.input[0]), w, b], [self.out(node)],
                s.BuiltinOptions.FullyConnectedOptions, s.FullyConnectedOptionsT())

    def activation(self, node):
        """The clamp of the product before it."""
        last = self.operators[-1].builtinOptions
        kind = s.ActivationFunctionType.RELU if node.op_type == "Relu" else s.ActivationFunctionType.RELU6
        last.fusedActivationFunction = kind
        self.at[node.output[0]] = self.at[node.input[0]]

    def add(self, node):
        self.op(B.ADD, [self.value(n) for n in node.input], [self.out(node)],
                s.BuiltinOptions.AddOptions, s.AddOptionsT())

    def pool(self, node):
        a, x = attributes(node), self.shape[node.input[0]]
        o = s.Pool2DOptionsT()
        o.filterWidth = o.filterHeight = a["kernel_shape"][0]
        o.strideW = o.strideH = a["strides"][0]
        o.padding = self.padding(a, x[2], o.filterHeight, o.strideH)
        self.op(B.MAX_POOL_2D, [self.value(node.input[0])], [self.out(node)],
                s.BuiltinOptions.Pool2DOptions, o)

    def average(self, node):
        o = s.ReducerOptionsT()
        o.keepDims = True
        axes = self.tensor([2], T.INT32, np.array([1, 2], np.int32), None)
        self.op(B.MEAN, [self.value(node.input[0]), axes], [self.out(node)],
                s.BuiltinOptions.ReducerOptions, o)

    def transpose(self, node):
        """The image in NHWC is what the tensor holds. It is an input, or only a Reshape may read it."""
        perm = attributes(node)["perm"]
        if perm != TO_NHWC and not (perm == TO_NCHW and self.is_nhwc(node.input[0])):
            raise NotImplementedError("Transpose of other than an image")
        self.at[node.output[0]] = self.value(node.input[0])

    def is_nhwc(self, name):
        """Whether an input is an image in NHWC: all that read it make it NCHW."""
        readers = [n for n in self.graph.node if name in n.input]
        return readers and name in [i.name for i in self.graph.input] and \
            all(n.op_type == "Transpose" and attributes(n)["perm"] == TO_NCHW for n in readers)

    def reshape(self, node):
        o = s.ReshapeOptionsT()
        o.newShape = self.shape[node.output[0]]
        dims = self.tensor([len(o.newShape)], T.INT32, np.array(o.newShape, np.int32), None)
        self.op(B.RESHAPE, [self.value(node.input[0]), dims], [self.out(node)],
                s.BuiltinOptions.ReshapeOptions, o)

    def concat(self, node):
        o = s.ConcatenationOptionsT()
        o.axis = attributes(node)["axis"]
        if len(self.shape[node.output[0]]) == 4:
            o.axis = (0, 3, 1, 2)[o.axis]
        self.op(B.CONCATENATION, [self.value(n) for n in node.input], [self.out(node)],
                s.BuiltinOptions.ConcatenationOptions, o)

    NODES = {"QuantizeLinear": quantizer, "DequantizeLinear": quantizer, "Conv": conv, "Gemm": gemm,
             "Relu": activation, "Clip": activation, "Add": add, "MaxPool": pool,
             "GlobalAveragePool": average, "Flatten": reshape, "Reshape": reshape, "Transpose": transpose,
             "Concat": concat}

    def feeds_products(self):
        """The values of which a product is computed."""
        needed = set()
        for node in reversed(self.graph.node):
            if node.op_type in PRODUCTS or needed.intersection(node.output):
                needed.update(node.input)
        return needed

    def is_computed(self, name):
        return not name or name in self.at or name in self.raw or name in self.const

    def nodes(self):
        """Converts what has a counterpart. Returns the values that no node or only nodes left out read."""
        needed, read = self.feeds_products(), set()
        for node in self.graph.node:
            is_needed = node.op_type in PRODUCTS or needed.intersection(node.output)
            if not is_needed and not all(self.is_computed(n) for n in node.input):
                continue
            try:
                if node.op_type not in self.NODES:
                    raise NotImplementedError(node.op_type)
                self.NODES[node.op_type](self, node)
            except NotImplementedError:
                if is_needed:
                    raise
            else:
                read.update(node.input)
        return [n for n in self.at if n not in read]

    def convert(self):
        inputs = [i.name for i in self.graph.input]
        for name in inputs:
            self.at[name] = self.tensor(self.shape[name] if self.is_nhwc(name) else self.dims(name))
        results = self.nodes()
        g = s.SubGraphT()
        g.tensors, g.operators = self.tensors, self.operators
        g.inputs, g.outputs = [self.at[n] for n in inputs], list(dict.fromkeys(self.at[n] for n in results))
        m = s.ModelT()
        m.version, m.subgraphs, m.buffers, m.operatorCodes = 3, [g], self.buffers, []
        for code in self.codes:
            c = s.OperatorCodeT()
            c.builtinCode, c.deprecatedBuiltinCode, c.version = code, min(code, 127), VERSIONS[code]
            m.operatorCodes.append(c)
        b = flatbuffers.Builder(1 << 20)
        b.Finish(m.Pack(b), b"TFL3")
        return bytes(b.Output())


def main():
    try:
        data = Converter(onnx.load(sys.argv[1])).convert()
    except NotImplementedError as e:
        sys.exit(f"tflite.py: {sys.argv[1]}: {e} is not converted")
    with open(sys.argv[2], "wb") as f:
        f.write(data)


if __name__ == "__main__":
    main()
