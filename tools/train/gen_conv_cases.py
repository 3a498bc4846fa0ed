# SPDX-License-Identifier: MIT
"""Writes seeded random quantised convolutions with onnxruntime's results.

The format is tests/conv/conv_cases.h; --compact leaves out what a reader can
draw again from the case's seed, and records a CRC32C of the result. Every
result is also computed by the int64 oracle of numerics.py; the first
difference ends the run.
"""
import argparse
import multiprocessing
import struct
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import numerics as nm

F = np.float32
FILE = struct.Struct("<4sII")
CASE = struct.Struct("<II18H3h6B2f")
SEED = struct.Struct("<QIIHBBB3x")
TYPES = {np.dtype(np.uint8): 0, np.dtype(np.int8): 1}
KINDS = ["dense", "pointwise", "first", "depthwise", "grouped", "large"]
SHARES = [0.36, 0.16, 0.12, 0.16, 0.12, 0.08]


def ints(rng, lo, hi, n):
    return [int(v) for v in rng.integers(lo, hi + 1, n)]


def draw_channels(rng, kind):
    """(c, m, group)"""
    whole = rng.random() < 0.3    # of 16, the width of the array
    if kind == "pointwise":
        step = 16 if whole else 1
        return (*(step * v for v in ints(rng, 1, 160 // step, 2)), 1)
    if kind == "first":
        return (*ints(rng, 1, 4, 1), *ints(rng, 1, 40, 1), 1)
    if kind == "depthwise":
        c = int(rng.integers(1, 5)) * 16 if whole else int(rng.integers(1, 70))
        return c, c * int(rng.choice([1, 1, 1, 2])), c
    if kind == "grouped":
        g, cg, mg = int(rng.choice([2, 3, 4, 8])), *ints(rng, 1, 20, 2)
        return g * cg, g * mg, g
    top = 6 if kind == "large" else 48
    if whole and kind == "dense":
        return (*(16 * v for v in ints(rng, 1, 3, 2)), 1)
    return (*ints(rng, 1, top, 2), 1)


def draw_shape(rng):
    """All integers of a case. The caller draws again if the case is too large or empty."""
    kind = str(rng.choice(KINDS, p=SHARES))
    c, m, group = draw_channels(rng, kind)
    k = [1, 1] if kind == "pointwise" else ints(rng, 1, 7, 2)
    if kind == "large":
        k = ints(rng, 1, 13, 2)
        k[int(rng.integers(2))] = int(rng.integers(8, 14))
    elif rng.random() < 0.5:
        k[1] = k[0]
    s = [1, 1] if rng.random() < 0.45 else ints(rng, 1, 4, 2)
    d = [1, 1] if rng.random() < 0.6 else ints(rng, 1, 3, 2)
    p = ints(rng, 0, max(k), 4)
    if rng.random() < 0.6:
        p = [(k[0] - 1) * d[0] // 2, (k[1] - 1) * d[1] // 2] * 2
    n = int(rng.choice([1, 1, 1, 1, 1, 1, 1, 1, 2, 3]))
    return dict(n=n, c=c, m=m, group=group, k=k, s=s, d=d, p=p, hw=ints(rng, 1, 24, 2))


def output_size(v):
    return [(v["hw"][i] + v["p"][i] + v["p"][i + 2] - (v["k"][i] - 1) * v["d"][i] - 1)
            // v["s"][i] + 1 for i in range(2)]


def fits(v, max_bytes):
    o = output_size(v)
    if min(o) < 1:
        return False
    w = v["m"] * (v["c"] // v["group"]) * v["k"][0] * v["k"][1]
    y = v["n"] * v["m"] * o[0] * o[1]
    x = v["n"] * v["c"] * v["hw"][0] * v["hw"][1]
    return x + w + y + 8 * v["m"] <= max_bytes and y <= 3000 and y * w // v["m"] <= 1500000


def words(seed, first, count):
    """Words first.. of the SplitMix64 stream of seed, as in the reader in C."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) \
            * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def fill(stream, kind, dtype):
    """0: the full range, 1: the two extremes, 2: small values around the middle."""
    lo, hi = nm.qrange(dtype)
    if kind == 0:
        return (stream >> np.uint64(56)).astype(np.uint8).view(dtype)
    if kind == 1:
        return np.where(stream >> np.uint64(63), hi, lo).astype(dtype)
    small = (stream >> np.uint64(32)) % np.uint64(7)
    return ((lo + hi + 1) // 2 - 3 + small.astype(np.int64)).astype(dtype)


def weight_scales(stream, kind, div):
    """0: powers of two, 1: a small integer / div, 2: any mantissa."""
    high = stream >> np.uint64(32)
    if kind == 0:
        return np.ldexp(F(1), (high % np.uint64(3)).astype(np.int32) - 9).astype(F)
    if kind == 1:
        return (high % np.uint64(29) + np.uint64(1)).astype(F) / F(div)
    mantissa = ((stream >> np.uint64(41)) | np.uint64(0x800000)).astype(F)
    return np.ldexp(mantissa, (stream & np.uint64(3)).astype(np.int32) - 32).astype(F)


def draw_zp(rng, dtype):
    lo, hi = nm.qrange(dtype)
    return int(rng.choice([lo, hi, (lo + hi + 1) // 2, rng.integers(lo, hi + 1)],
                          p=[0.15, 0.03, 0.27, 0.55]))


def draw_output_scale(rng, acc, kind, xs, ws):
    """ys for ties, near ties, ordinary, saturating or vanishing results."""
    spread = float(np.abs(acc).max(initial=1)) or 1.0
    if kind == "tie":
        fit = int(np.ceil(np.log2(max(spread / 127, 1))))
        return F(xs * ws[0] * F(2.0 ** max(1, fit + int(rng.integers(-2, 2)))))
    if kind == "ratio":
        return F(max(1, round(spread * float(ws.max()) * float(xs) / 100 * 10))) / F(10)
    times = {"plain": rng.uniform(40, 160), "saturate": rng.uniform(500, 40000),
             "vanish": rng.uniform(0.01, 2)}[kind]
    return F(spread * float(xs) * float(ws.max()) / times)


def draw_tensors(rng, v):
    """x, w and the bias from the stream of v["seed"]."""
    v["seed"] = int(rng.integers(0, 2 ** 63))
    v["fill"] = ints(rng, 0, 0, 2) if rng.random() < 0.6 else ints(rng, 0, 2, 2)
    shapes = [(v["n"], v["c"], *v["hw"]), (v["m"], v["c"] // v["group"], *v["k"])]
    v["drawn"] = 0
    for name, shape, kind in zip("xw", shapes, v["fill"]):
        count = int(np.prod(shape))
        v[name] = fill(words(v["seed"], v["drawn"], count), kind, v[name + "t"]).reshape(shape)
        v["drawn"] += count


def draw_bias(rng, v, acc):
    v["bias"], v["top"] = None, 0
    if rng.random() < 0.6:
        v["top"] = int(np.abs(acc).max(initial=0)) // 2 + 2
        high = words(v["seed"], v["drawn"], v["m"]) >> np.uint64(32)
        v["bias"] = ((high % np.uint64(2 * v["top"])).astype(np.int64) - v["top"]).astype(np.int32)
        v["drawn"] += v["m"]


def draw_case(rng, max_bytes):
    v = draw_shape(rng)
    while not fits(v, max_bytes):
        v = draw_shape(rng)
    v["xt"] = np.dtype(rng.choice([np.uint8, np.int8]))
    v["wt"] = np.dtype(np.uint8 if v["xt"] == np.uint8 and rng.random() < 0.35 else np.int8)
    draw_tensors(rng, v)
    v["xz"], v["yz"] = draw_zp(rng, v["xt"]), draw_zp(rng, v["xt"])
    any_wz = rng.random() < (0.9 if v["wt"] == np.uint8 else 0.08)
    v["wz"] = draw_zp(rng, v["wt"]) if any_wz else 0
    acc = nm.conv_acc(v["x"], v["xz"], v["w"], v["wz"], None, v["s"], v["p"], v["d"], v["group"])
    draw_bias(rng, v, acc)
    v["per_channel"] = rng.random() < 0.5
    kind = str(rng.choice(["tie", "ratio", "plain", "saturate", "vanish"],
                          p=[0.25, 0.17, 0.47, 0.07, 0.04]))
    v["ws_kind"] = {"tie": 0, "ratio": 1}.get(kind, 2)
    v["ws_div"] = int(rng.choice([100, 300, 700]))
    v["ws"] = weight_scales(words(v["seed"], v["drawn"], v["m"] if v["per_channel"] else 1),
                            v["ws_kind"], v["ws_div"])
    v["xs"] = {"tie": F(2.0 ** rng.integers(-7, 1)),
               "ratio": F(rng.integers(1, 30)) / F(rng.choice([10, 30, 70]))
               }.get(kind, F(np.exp2(rng.uniform(-8, 1))))
    v["ys"] = draw_output_scale(rng, acc, kind, v["xs"], v["ws"])
    return v


def session_options(int8):
    """Options for uint8 or int8 (docs/numerics.md 7)."""
    so = ort.SessionOptions()
    so.intra_op_num_threads = 1
    so.log_severity_level = 3
    so.add_session_config_entry("session.qdqisint8allowed", "1")
    if not int8:
        so.add_session_config_entry("session.x64quantprecision", "1")
    return so


def run_ort(v):
    const = {"xs": v["xs"], "xz": np.array(v["xz"], v["xt"]), "w": v["w"],
             "ws": v["ws"] if v["per_channel"] else v["ws"][0],
             "wz": np.full(v["m"], v["wz"], v["wt"]) if v["per_channel"]
             else np.array(v["wz"], v["wt"]),
             "ys": v["ys"], "yz": np.array(v["yz"], v["xt"])}
    if v["bias"] is not None:
        const["bias"] = v["bias"]
    elem = TensorProto.UINT8 if v["xt"] == np.uint8 else TensorProto.INT8
    node = helper.make_node("QLinearConv", ["x", *const], ["y"], strides=v["s"], pads=v["p"],
                            dilations=v["d"], group=v["group"], kernel_shape=v["k"])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", elem, v["x"].shape)],
                              [helper.make_tensor_value_info("y", elem, None)],
                              [numpy_helper.from_array(np.asarray(a), k) for k, a in const.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    sess = ort.InferenceSession(model.SerializeToString(), session_options(v["xt"] == np.int8),
                                providers=["CPUExecutionProvider"])
    return sess.run(None, {"x": v["x"]})[0]


def pad4(data):
    return data + bytes(-len(data) % 4)


def crc32c(data):
    """As rivulet_crc32c(0, data)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc_table()


def payload(v, y, compact):
    if compact:
        return SEED.pack(v["seed"], crc32c(y.tobytes()), v["top"], v["ws_div"], *v["fill"],
                         v["ws_kind"])
    data = pad4(v["x"].tobytes() + v["w"].tobytes())
    if v["bias"] is not None:
        data += v["bias"].astype("<i4").tobytes()
    return pad4(data + np.asarray(v["ws"], "<f4").tobytes() + y.tobytes())


def pack(v, index, y, compact):
    data = payload(v, y, compact)
    flags = (v["bias"] is not None) | v["per_channel"] << 1 | compact << 2
    return CASE.pack(len(data), index, *v["x"].shape, v["m"], v["group"], *v["k"], *v["s"],
                     *v["d"], *v["p"], *y.shape[2:], v["xz"], v["wz"], v["yz"], TYPES[v["xt"]],
                     TYPES[v["wt"]], flags, 0, 0, 0, v["xs"], v["ys"]) + data


def make_case(job):
    """(bytes, has an exact tie, saturates, values); exits if the oracle differs."""
    seed, index, max_bytes, compact = job
    v = draw_case(np.random.default_rng([seed, index]), max_bytes)
    y = run_ort(v)
    want = nm.qlinear_conv(v["x"], v["xs"], v["xz"], v["w"], v["ws"], v["wz"], v["ys"], v["yz"],
                           v["bias"], v["s"], v["p"], v["d"], v["group"])
    if not np.array_equal(y, want):
        raise SystemExit(f"case {index} of seed {seed}: onnxruntime and the int64 oracle differ in "
                         f"{np.count_nonzero(y != want)} of {y.size} values")
    acc = nm.conv_acc(v["x"], v["xz"], v["w"], v["wz"], v["bias"], v["s"], v["p"], v["d"], v["group"])
    real = acc.astype(F) * nm.conv_scale(v["xs"], v["ws"], v["ys"]).reshape(1, -1, 1, 1)
    lo, hi = nm.qrange(v["xt"])
    inside = (real > lo - v["yz"]) & (real < hi - v["yz"])
    tie = bool((inside & (np.abs(real - np.trunc(real)) == 0.5)).any())
    return pack(v, index, y, compact), tie, bool((~inside).any()), y.size


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--count", type=int, default=10000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--max-bytes", type=int, default=16000, help="largest case (default 16000)")
    ap.add_argument("--compact", action="store_true", help="seeds and checksums only")
    ap.add_argument("-o", "--output", required=True)
    opt = ap.parse_args()
    jobs = [(opt.seed, i, opt.max_bytes, opt.compact) for i in range(opt.count)]
    ties = clamped = values = size = 0
    with multiprocessing.Pool(2) as pool, open(opt.output, "wb") as out:
        out.write(FILE.pack(b"RVCC", 1, opt.count))
        for data, tie, clamp, n in pool.imap(make_case, jobs, chunksize=50):
            out.write(data)
            ties, clamped, values, size = ties + tie, clamped + clamp, values + n, size + len(data)
    print(f"{opt.output}: {opt.count} cases, {values} values, {size / 1e6:.1f} MB; "
          f"{ties} with exact ties, {clamped} that saturate; oracle and onnxruntime agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
