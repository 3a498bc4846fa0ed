# SPDX-License-Identifier: MIT
"""Quantises a float ONNX model of train.py statically: QDQ, per channel, calibrated.

    python quantise.py build/models/lenet.float.onnx -o models/lenet.onnx --type uint8 --keep-relu
    python quantise.py build/models/resnet.float.onnx -o models/resnet.onnx --type int8
"""
import argparse
import logging

import onnx
from onnxruntime import quantization as oq

import fashion


class Images(oq.CalibrationDataReader):
    """The first COUNT training images, one at a time."""

    def __init__(self, count):
        self.rows = iter(fashion.to_input(fashion.images("train")[:count]))

    def get_next(self):
        row = next(self.rows, None)
        return None if row is None else {"image": row[None]}


def restore_relus(model, original):
    """Put back the Relu nodes that the quantiser dropped.

    Dropping is right (the zero point is qmin, so quantising clamps), but then
    the file no longer says what the network is, and exporters do keep them.
    """
    producer = {o: n for n in model.graph.node for o in n.output}
    for relu in (n for n in original.graph.node if n.op_type == "Relu"):
        node = producer.get(relu.output[0])
        if node is None or node.op_type == "Relu":
            continue
        node.output[0] = relu.input[0]
        model.graph.node.insert(list(model.graph.node).index(node) + 1, relu)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("-o", "--output", required=True)
    ap.add_argument("--type", choices=["uint8", "int8"], required=True, help="of activations")
    ap.add_argument("--images", type=int, default=1000, help="calibration images (default 1000)")
    ap.add_argument("--keep-relu", action="store_true")
    opt = ap.parse_args()
    logging.disable(logging.WARNING)
    kind = {"uint8": oq.QuantType.QUInt8, "int8": oq.QuantType.QInt8}[opt.type]
    oq.quantize_static(opt.model, opt.output, Images(opt.images), quant_format=oq.QuantFormat.QDQ,
                       per_channel=True, activation_type=kind, weight_type=oq.QuantType.QInt8,
                       calibrate_method=oq.CalibrationMethod.MinMax)
    model = onnx.load(opt.output)
    if opt.keep_relu:
        restore_relus(model, onnx.load(opt.model))
    for node in model.graph.node:
        node.doc_string = ""
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, opt.output)
    print(f"wrote {opt.output}: {len(model.SerializeToString())} bytes")


if __name__ == "__main__":
    main()
