# SPDX-License-Identifier: MIT
"""Writes the float model of a quantised one (QDQ).

    python dequantise.py models/resnet.onnx -o models/resnet-0.float.onnx

Quantisers go, weights and biases become what they stand for. A quantiser whose zero point is the least
value of its type cuts at 0; it becomes a Relu, unless its operand cannot be negative.
"""
import argparse

import numpy as np
import onnx
from onnx import helper, numpy_helper

KEEP_SIGN = ("Flatten", "GlobalAveragePool", "MaxPool", "AveragePool", "Reshape")


class Rewrite:
    def __init__(self, graph):
        self.graph = graph
        self.init = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.names, self.nodes, self.constants = {}, [], []
        self.positive = {graph.input[0].name}    # values without a Relu behind them

    def name(self, name):
        return self.names.get(name, name)

    def constant(self, n):
        q = self.init[n.input[0]]
        shape = [-1] + [1] * (q.ndim - 1) if self.init[n.input[1]].ndim else []
        s, z = (self.init[i].astype(np.float32).reshape(shape) for i in n.input[1:3])
        self.constants.append(numpy_helper.from_array((q.astype(np.float32) - z) * s, n.output[0]))

    def quantiser(self, n):
        source, zero = self.name(n.input[0]), self.init[n.input[2]]
        self.names[n.output[0]] = source
        if int(zero) != np.iinfo(zero.dtype).min or source in self.positive:
            return
        cut = source + "_relu"
        self.nodes.append(helper.make_node("Relu", [source], [cut], name=cut))
        self.positive.add(cut)
        self.names[n.output[0]] = cut

    def other(self, n):
        ins = [self.name(i) for i in n.input]
        copy = onnx.NodeProto()
        copy.CopyFrom(n)
        del copy.input[:]
        copy.input.extend(ins)
        self.nodes.append(copy)
        if n.op_type == "Relu" or (n.op_type in KEEP_SIGN and ins[0] in self.positive):
            self.positive.add(n.output[0])

    def run(self):
        for n in self.graph.node:
            if n.op_type == "DequantizeLinear" and n.input[0] in self.init:
                self.constant(n)
            elif n.op_type == "QuantizeLinear":
                self.quantiser(n)
            elif n.op_type == "DequantizeLinear":
                self.names[n.output[0]] = self.name(n.input[0])
            else:
                self.other(n)
        for n in self.nodes:
            n.output[0] = next((o.name for o in self.graph.output if self.name(o.name) == n.output[0]),
                               n.output[0])
        used = {i for n in self.nodes for i in n.input}
        kept = [t for t in self.graph.initializer if t.name in used]
        return helper.make_graph(self.nodes, self.graph.name, self.graph.input, self.graph.output,
                                 self.constants + kept)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("-o", "--output", required=True)
    opt = ap.parse_args()
    old = onnx.load(opt.model)
    model = helper.make_model(Rewrite(old.graph).run(), opset_imports=old.opset_import,
                              ir_version=old.ir_version, producer_name="rivulet-train")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, opt.output)
    print(f"wrote {opt.output}: {len(model.SerializeToString())} bytes")


if __name__ == "__main__":
    main()
