# SPDX-License-Identifier: MIT
"""Records onnxruntime's last quantised tensor on the first test images.

    python record.py models/lenet.onnx -o models/lenet.expected

The format is in models/README. Every value is also computed by qdq_oracle.py;
the first difference ends the run.
"""
import argparse
import struct

import numpy as np
import onnx
from onnx import TensorProto, helper

import fashion
import qdq_oracle

HEADER = struct.Struct("<4sIIHBB")


def last_quantised(model):
    """(name, element type) of the output of the last QuantizeLinear."""
    node = [n for n in model.graph.node if n.op_type == "QuantizeLinear"][-1]
    zp = next(t for t in model.graph.initializer if t.name == node.input[2])
    return node.output[0], zp.data_type


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("-o", "--output", required=True)
    ap.add_argument("--count", type=int, default=1000)
    opt = ap.parse_args()
    model = onnx.load(opt.model)
    name, elem = last_quantised(model)
    oracle = qdq_oracle.Oracle(model)
    model.graph.output.append(helper.make_tensor_value_info(name, elem, None))
    session = qdq_oracle.ort_session(model)
    images, labels = fashion.images("t10k"), fashion.labels("t10k")
    rows, hits = [], 0
    for i in range(opt.count):
        x = fashion.to_input(images[i:i + 1])
        scores, y = session.run([model.graph.output[0].name, name], {"image": x})
        want = oracle.run({"image": x})
        if not np.array_equal(y, want[name]) or not np.array_equal(scores, want["scores"]):
            raise SystemExit(f"image {i}: onnxruntime {y} differs from the oracle {want[name]}")
        rows.append(y.reshape(-1))
        hits += int(rows[-1].argmax() == labels[i])
    classes = len(rows[0])
    kind = {TensorProto.UINT8: 0, TensorProto.INT8: 1}[elem]
    with open(opt.output, "wb") as out:
        out.write(HEADER.pack(b"RVEX", 1, opt.count, classes, kind, 0))
        out.write(np.stack(rows).tobytes())
    print(f"{opt.output}: tensor {name}, {opt.count} images, all equal to the oracle, "
          f"accuracy {100 * hits / opt.count:.1f} %")


if __name__ == "__main__":
    main()
