#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes binary networks of few channels as seeds of the fuzzers: python3 tests/fuzz/binary_cnn.py FOLDER

Each has one of the forms in which signs are exported, a shortcut, and a normalisation. The folder
gets examples for their calibration, too."""
import random
import struct
import sys

sys.path.insert(0, "tools/zoo")
import wire  # noqa: E402

CHANNELS, SIZE = 8, 6
RNG = random.Random(5)


def floats(name, dims, values):
    return wire.tensor(name, wire.FLOAT, dims, struct.pack(f"<{len(values)}f", *values))


def constants():
    signs = [RNG.choice((-0.5, 0.5)) for _ in range(CHANNELS * CHANNELS * 9)]
    yield floats("w", [CHANNELS, CHANNELS, 3, 3], signs)
    yield floats("zero", [], [0.0])
    yield floats("one", [], [1.0])
    yield floats("two", [], [2.0])
    yield floats("minus", [], [-1.0])
    for name in ("gamma", "beta", "mean"):
        yield floats(name, [CHANNELS], [RNG.uniform(-1, 1) for _ in range(CHANNELS)])
    yield floats("var", [CHANNELS], [RNG.uniform(0.5, 2) for _ in range(CHANNELS)])


FORMS = {
    "sign": [("Sign", ["x"], {})],
    "where": [("GreaterOrEqual", ["x", "zero"], {}), ("Where", ["@", "one", "minus"], {})],
    "clip": [("Clip", ["x", "minus", "one"], {}), ("Sign", ["@"], {})],
    "cast": [("Greater", ["x", "zero"], {}), ("Cast", ["@"], {"to": 1}), ("Mul", ["@", "two"], {}),
             ("Sub", ["@", "one"], {})],
}


def model(form):
    nodes, last = [], "x"
    for i, (op, inputs, attrs) in enumerate(FORMS[form]):
        nodes.append(wire.node(op, [last if n == "@" else n for n in inputs], [f"s{i}"], attrs))
        last = f"s{i}"
    nodes.append(wire.node("Conv", [last, "w"], ["c"], {"pads": [1, 1, 1, 1]}))
    nodes.append(wire.node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"], {}))
    nodes.append(wire.node("Add", ["n", "x"], ["a"], {}))
    nodes.append(wire.node("Sign", ["a"], ["t"], {}))
    nodes.append(wire.node("Conv", ["t", "w"], ["y"], {}))
    return wire.model(nodes, form, list(constants()),
                      [wire.value_info("x", wire.FLOAT, [1, CHANNELS, SIZE, SIZE])],
                      [wire.value_info("y", wire.FLOAT, [1, CHANNELS, SIZE - 2, SIZE - 2])], 17)


for name in FORMS:
    with open(f"{sys.argv[1]}/{name}.onnx", "wb") as file:
        file.write(model(name))
shape = (1, CHANNELS, SIZE, SIZE)
values = [RNG.gauss(0, 1) for _ in range(CHANNELS * SIZE * SIZE)]
header = str({"descr": "<f4", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
with open(f"{sys.argv[1]}/examples.npy", "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    file.write(struct.pack(f"<{len(values)}f", *values))
