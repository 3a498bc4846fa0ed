# SPDX-License-Identifier: MIT
"""Writes seeded random quantised convolutions with onnxruntime's results.

The format is tests/conv/conv_cases.h. Every result is also computed by the
int64 oracle of numerics.py; the first difference ends the run.
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
    """All integers of a case; the caller redraws what is too big or empty."""
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


def draw_data(rng, dtype, shape):
    """Full range, extremes only, or small values around zero."""
    lo, hi = nm.qrange(dtype)
    kind = rng.choice(3, p=[0.7, 0.15, 0.15])
    if kind == 0:
        return rng.integers(lo, hi + 1, shape).astype(dtype)
    if kind == 1:
        return rng.choice([lo, hi], shape).astype(dtype)
    mid = (lo + hi + 1) // 2
    return (mid + rng.integers(-3, 4, shape)).astype(dtype)


def draw_zp(rng, dtype):
    lo, hi = nm.qrange(dtype)
    return int(rng.choice([lo, hi, (lo + hi + 1) // 2, rng.integers(lo, hi + 1)],
                          p=[0.15, 0.03, 0.27, 0.55]))


def draw_scales(rng, acc, per_channel, m):
    """(xs, ws, ys): ties, near ties, ordinary, saturating, vanishing."""
    spread = float(np.abs(acc).max(initial=1)) or 1.0
    count = m if per_channel else 1
    kind = rng.choice(["tie", "ratio", "plain", "saturate", "vanish"],
                      p=[0.25, 0.17, 0.47, 0.07, 0.04])
    if kind == "tie":
        fit = int(np.ceil(np.log2(max(spread / 127, 1))))
        total = max(1, fit + int(rng.integers(-2, 2)))
        ws = np.exp2(rng.integers(-9, -6, count)).astype(F)
        xs = F(2.0 ** rng.integers(-7, 1))
        return xs, ws, F(xs * ws[0] * F(2.0 ** total))
    if kind == "ratio":
        ws = (rng.integers(1, 30, count).astype(F) / F(rng.choice([100, 300, 700]))).astype(F)
        xs = F(rng.integers(1, 30)) / F(rng.choice([10, 30, 70]))
        step = max(1, round(spread * float(ws.max()) * float(xs) / 100 * 10))
        return xs, ws, F(step) / F(10)
    ws = np.exp2(rng.uniform(-9, -5, count)).astype(F)
    xs = F(np.exp2(rng.uniform(-8, 1)))
    real = spread * float(xs) * float(ws.max())
    times = {"plain": rng.uniform(40, 160), "saturate": rng.uniform(500, 40000),
             "vanish": rng.uniform(0.01, 2)}[str(kind)]
    return xs, ws, F(real / times)


def draw_case(rng, max_bytes):
    v = draw_shape(rng)
    while not fits(v, max_bytes):
        v = draw_shape(rng)
    v["xt"] = np.dtype(rng.choice([np.uint8, np.int8]))
    v["wt"] = np.dtype(np.uint8 if v["xt"] == np.uint8 and rng.random() < 0.35 else np.int8)
    v["x"] = draw_data(rng, v["xt"], (v["n"], v["c"], *v["hw"]))
    v["w"] = draw_data(rng, v["wt"], (v["m"], v["c"] // v["group"], *v["k"]))
    v["xz"], v["yz"] = draw_zp(rng, v["xt"]), draw_zp(rng, v["xt"])
    any_wz = rng.random() < (0.9 if v["wt"] == np.uint8 else 0.08)
    v["wz"] = draw_zp(rng, v["wt"]) if any_wz else 0
    v["bias"] = None
    acc = nm.conv_acc(v["x"], v["xz"], v["w"], v["wz"], None, v["s"], v["p"], v["d"], v["group"])
    if rng.random() < 0.6:
        top = int(np.abs(acc).max(initial=0)) // 2 + 2
        v["bias"] = rng.integers(-top, top, v["m"]).astype(np.int32)
    per_channel = rng.random() < 0.5
    v["xs"], v["ws"], v["ys"] = draw_scales(rng, acc, per_channel, v["m"])
    v["per_channel"] = per_channel
    return v


def session_options(int8):
    """Why they differ: docs/numerics.md 7."""
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


def pack(v, index, y):
    payload = pad4(v["x"].tobytes() + v["w"].tobytes())
    if v["bias"] is not None:
        payload += v["bias"].astype("<i4").tobytes()
    payload += np.asarray(v["ws"], "<f4").tobytes() + y.tobytes()
    payload = pad4(payload)
    flags = (v["bias"] is not None) | v["per_channel"] << 1
    return CASE.pack(len(payload), index, *v["x"].shape, v["m"], v["group"], *v["k"], *v["s"],
                     *v["d"], *v["p"], *y.shape[2:], v["xz"], v["wz"], v["yz"], TYPES[v["xt"]],
                     TYPES[v["wt"]], flags, 0, 0, 0, v["xs"], v["ys"]) + payload


def make_case(job):
    """Bytes of one case and whether it holds an exact tie; raises if the oracle disagrees."""
    seed, index, max_bytes = job
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
    return pack(v, index, y), tie, bool((~inside).any()), y.size


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--count", type=int, default=10000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--max-bytes", type=int, default=16000, help="largest case (default 16000)")
    ap.add_argument("-o", "--output", required=True)
    opt = ap.parse_args()
    jobs = [(opt.seed, i, opt.max_bytes) for i in range(opt.count)]
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
