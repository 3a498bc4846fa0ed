#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes random graphs with their inputs and onnxruntime's results for tests/unit/test_graphs.c.

record.py FILE COUNT [SEED]	the graphs of seeds, small ones only
record.py FILE NAME=MODEL.onnx=INPUTS.npz ...	adds graphs that were wrong once; NAME says what was

The file, all numbers little endian: u32 magic "RVGR", then for each graph: name[48], u8 whether the
interpreter computes the same bits, u32 bytes of the model, the model, u16 inputs, for each u32 bytes, the
bytes; u16 outputs, for each u8 kind and u8 bytes of an element (as
in .npy files), u8 slack, u8 rank, i32 dimensions[rank], u32 bytes, the bytes.
"""
import os
import struct
import sys

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_graphs import Case, is_fused, make_case  # noqa: E402

MAGIC = b"RVGR"
MOST_BYTES = 3500	# of a recorded graph


def packed(name, case):
    model = case.model
    parts = [name.encode()[:47].ljust(48, b"\0"), struct.pack("<BI", not is_fused(model), len(case.data)), case.data,
             struct.pack("<H", len(model.graph.input))]
    for i in model.graph.input:
        data = np.ascontiguousarray(case.feeds[i.name]).tobytes()
        parts += [struct.pack("<I", len(data)), data]
    parts.append(struct.pack("<H", len(case.want)))
    for out, want in zip(model.graph.output, case.want):
        want = np.asarray(want)
        data = want.tobytes()
        parts += [want.dtype.str[1].encode(),
                  struct.pack("<BBB", want.dtype.itemsize, case.slack.get(out.name, 0), want.ndim),
                  struct.pack(f"<{want.ndim}i", *want.shape), struct.pack("<I", len(data)), data]
    return b"".join(parts)


def record_seeds(path, count, seed):
    with open(path, "wb") as f:
        f.write(MAGIC)
        done = 0
        while done < count:
            case, _, _, _ = make_case(seed)
            data = packed(f"seed {seed}", case) if case else b""
            if case and len(data) <= MOST_BYTES:
                f.write(data)
                done += 1
            seed += 1


def record_models(path, args):
    new = not os.path.exists(path)
    with open(path, "ab") as f:
        if new:
            f.write(MAGIC)
        for arg in args:
            name, model, inputs = arg.split("=")
            loaded = onnx.load(model)
            int8 = any(t.data_type == onnx.TensorProto.INT8 and not t.dims for t in loaded.graph.initializer)
            f.write(packed(name, Case(loaded, dict(np.load(inputs)), {}, int8)))


if __name__ == "__main__":
    if "=" in sys.argv[2]:
        record_models(sys.argv[1], sys.argv[2:])
    else:
        record_seeds(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
