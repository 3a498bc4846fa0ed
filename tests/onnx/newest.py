#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the backend node tests of the installed onnx package into a folder, in the layout of
libonnx-testdata: NAME/model.onnx, NAME/test_data_set_N/{input,output}_N.pb.

newest.py FOLDER
"""
import os
import sys
import warnings

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_node_model_tests


def write(path, message):
    with open(path, "wb") as f:
        f.write(message.SerializeToString())


def as_message(value, name):
    """A TensorProto, or the value itself where it is a message already; None for other kinds."""
    if hasattr(value, "SerializeToString"):
        return value
    try:
        return numpy_helper.from_array(value, name)
    except (TypeError, AttributeError, ValueError):
        return None


def write_set(folder, kind, values, infos):
    for k, value in enumerate(values):
        message = as_message(value, infos[k].name if k < len(infos) else "")
        if message is not None:
            write(os.path.join(folder, f"{kind}_{k}.pb"), message)


def write_test(folder, test):
    os.makedirs(folder, exist_ok=True)
    onnx.save(test.model, os.path.join(folder, "model.onnx"))
    for i, (inputs, outputs) in enumerate(test.data_sets or []):
        data = os.path.join(folder, f"test_data_set_{i}")
        os.makedirs(data, exist_ok=True)
        write_set(data, "input", inputs, test.model.graph.input)
        write_set(data, "output", outputs, test.model.graph.output)


def main():
    warnings.simplefilter("ignore")
    tests = load_node_model_tests()
    for test in tests:
        write_test(os.path.join(sys.argv[1], test.name), test)
    print(f"{len(tests)} tests of onnx {onnx.__version__}, opset {onnx.defs.onnx_opset_version()}")


if __name__ == "__main__":
    main()
