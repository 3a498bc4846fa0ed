# SPDX-License-Identifier: MIT
"""colours.py PICTURE: checks the screenshot of a page, a PNG of 8-bit RGB or RGBA.

The boxes of NPU and CPU steps, the dots of the roofline and the memory port must be there.
"""
import collections
import struct
import sys
import zlib

WANT = {"NPU boxes": (0xDB, 0xEA, 0xFE), "CPU boxes": (0xFF, 0xED, 0xD5), "memory port": (0xC2, 0x41, 0x0C),
        "NPU frames": (0x1D, 0x4E, 0xD8)}
LEAST = 40


def chunks(data):
    at = 8
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8:at + 8 + size]
        at += size + 12


def paeth(a, b, c):
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def unfilter(kind, line, above, step):
    for i, byte in enumerate(line):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        add = (0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner))[kind]
        line[i] = (byte + add) & 0xff


def count_colours(data):
    parts = list(chunks(data))
    width, height, depth, colour = struct.unpack_from(">IIBB", parts[0][1])
    if depth != 8 or colour not in (2, 6):
        sys.exit(f"a PNG of depth {depth} and type {colour}")
    step = 3 if colour == 2 else 4
    raw = zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT"))
    above, seen = bytearray(width * step), collections.Counter()
    for y in range(height):
        start = y * (width * step + 1)
        line = bytearray(raw[start + 1:start + 1 + width * step])
        unfilter(raw[start], line, above, step)
        seen.update(zip(line[0::step], line[1::step], line[2::step]))
        above = line
    return seen


def main():
    with open(sys.argv[1], "rb") as f:
        seen = count_colours(f.read())
    for what, colour in WANT.items():
        if seen[colour] < LEAST:
            sys.exit(f"{what}: {seen[colour]} pixels of {colour}")


main()
