# SPDX-License-Identifier: MIT
"""Records onnxruntime's last quantised tensor of one model on one .npy input.

    python record_one.py build/mobilenetv2.onnx build/mobilenetv2.npy -o tests/data/mobilenetv2.npy

Stops if the numpy oracle differs.
"""
import argparse

import numpy as np
import onnx
from onnx import helper

import qdq_oracle
import record


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("input")
    ap.add_argument("-o", "--output", required=True)
    opt = ap.parse_args()
    model, x = onnx.load(opt.model), np.load(opt.input)
    onnx.checker.check_model(model, full_check=True)
    feeds = {model.graph.input[0].name: x}
    name, elem = record.last_quantised(model)
    want = qdq_oracle.Oracle(model).run(feeds)[name]
    model.graph.output.append(helper.make_tensor_value_info(name, elem, None))
    got = qdq_oracle.ort_session(model).run([name], feeds)[0]
    if not np.array_equal(got, want):
        raise SystemExit(f"{opt.model}: onnxruntime and the oracle differ in "
                         f"{np.count_nonzero(got != want)} of {got.size} values")
    lo, hi = np.iinfo(got.dtype).min, np.iinfo(got.dtype).max
    np.save(opt.output, got)
    print(f"{opt.output}: tensor {name} {got.shape}, equal to the oracle, {len(np.unique(got))} "
          f"distinct values, {100 * np.mean((got == lo) | (got == hi)):.1f} % at the ends")


if __name__ == "__main__":
    main()
