# SPDX-License-Identifier: MIT
"""Encodes ONNX messages (protobuf) with Python's standard library only."""
import struct

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7


def varint(n):
    n &= 2 ** 64 - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field_int(number, value):
    return varint(number << 3) + varint(value)


def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name, kind, dims, raw):
    return b"".join(field_int(1, d) for d in dims) + field_int(2, kind) + field(8, name) + field(9, raw)


def attribute(name, value):
    if isinstance(value, int):
        return field(1, name) + field_int(3, value) + field_int(20, 2)
    if isinstance(value, float):
        return field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + field_int(20, 1)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field_int(20, 3)
    return field(1, name) + b"".join(field_int(8, v) for v in value) + field_int(20, 7)


def node(op, inputs, outputs, attrs):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
            + field(3, outputs[0] + "_op") + field(4, op)
            + b"".join(field(5, attribute(k, v)) for k, v in attrs.items()))


def value_info(name, kind, dims):
    """A dimension that is a string is symbolic."""
    shape = b"".join(field(1, field(2, d) if isinstance(d, str) else field_int(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field_int(1, kind) + field(2, shape)))


def model(nodes, name, constants, inputs, outputs, opset):
    """@inputs, @outputs: lists of value_info()."""
    graph = (b"".join(field(1, n) for n in nodes) + field(2, name)
             + b"".join(field(5, t) for t in constants)
             + b"".join(field(11, v) for v in inputs) + b"".join(field(12, v) for v in outputs))
    return (field_int(1, 8) + field(2, "rivulet-gen") + field(7, graph)
            + field(8, field_int(2, opset)))
