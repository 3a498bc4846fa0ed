# SPDX-License-Identifier: MIT
"""Compares the oracles of numerics.py with onnxruntime on seeded random data."""
import argparse
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as oh, numpy_helper as nh

import numerics as nm

F = np.float32


def session(model):
    so = ort.SessionOptions()
    so.add_session_config_entry("session.x64quantprecision", "1")
    so.add_session_config_entry("session.qdqisint8allowed", "1")
    so.intra_op_num_threads = 1
    so.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), so,
                                providers=["CPUExecutionProvider"])


def run_node(op, inputs, domain="", opset=13, out_type=None, **attrs):
    """Runs one node whose inputs are graph inputs; None is an absent input."""
    names, values, feeds = [], [], {}
    for i, a in enumerate(inputs):
        if a is None:
            names.append("")
            continue
        a = np.asarray(a)
        names.append(f"i{i}")
        values.append(oh.make_tensor_value_info(names[-1], oh.np_dtype_to_tensor_dtype(a.dtype),
                                                a.shape))
        feeds[names[-1]] = a
    node = oh.make_node(op, names, ["y"], domain=domain, **attrs)
    elem = oh.np_dtype_to_tensor_dtype(np.dtype(out_type or np.asarray(inputs[0]).dtype))
    graph = oh.make_graph([node], "g", values, [oh.make_tensor_value_info("y", elem, None)])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset),
                                                oh.make_opsetid("com.microsoft", 1)], ir_version=8)
    return session(model).run(None, feeds)[0]


def rand_q(rng, dtype, shape):
    lo, hi = nm.qrange(dtype)
    return rng.integers(lo, hi + 1, shape).astype(dtype)


def rand_zp(rng, dtype):
    lo, hi = nm.qrange(dtype)
    return np.array(rng.choice([lo, hi, 0 if lo < 0 else 128, rng.integers(lo, hi + 1)]), dtype)


def rand_scale(rng, lo=-8, hi=-2):
    """Random, a power of two (exact ties), or a ratio of small integers (near ties)."""
    kind = rng.integers(3)
    if kind == 0:
        return F(2.0 ** rng.integers(lo, hi + 1))
    if kind == 1:
        return F(rng.integers(1, 40)) / F(rng.choice([70, 100, 200, 300, 800]))
    return F(np.exp2(rng.uniform(lo, hi)))


def case_add(rng, dtype):
    kind = rng.integers(3)
    n = int(rng.integers(1, 90))
    sa = (1,) if kind == 1 else (n,)
    sb = (1,) if kind == 2 else (n,)
    a, b = rand_q(rng, dtype, sa), rand_q(rng, dtype, sb)
    args = [a, rand_scale(rng), rand_zp(rng, dtype), b, rand_scale(rng), rand_zp(rng, dtype),
            rand_scale(rng), rand_zp(rng, dtype)]
    return run_node("QLinearAdd", args, "com.microsoft"), nm.qlinear_add(*args)


def case_add_channel(rng, dtype):
    """[N, C, H, W] + [C, 1, 1], which onnxruntime computes in spans with a scalar."""
    a, b = rand_q(rng, dtype, (1, 5, 6, 7)), rand_q(rng, dtype, (5, 1, 1))
    p = [rand_scale(rng), rand_zp(rng, dtype), rand_scale(rng), rand_zp(rng, dtype),
         rand_scale(rng), rand_zp(rng, dtype)]
    got = run_node("QLinearAdd", [a, p[0], p[1], b, p[2], p[3], p[4], p[5]], "com.microsoft")
    want = np.stack([nm.qlinear_add(a[:, c], p[0], p[1], b[c], p[2], p[3], p[4], p[5])
                     for c in range(5)], axis=1)
    return got, want


def case_mul(rng, dtype):
    n = int(rng.integers(1, 90))
    kind = rng.integers(3)
    a = rand_q(rng, dtype, (1,) if kind == 1 else (n,))
    b = rand_q(rng, dtype, (1,) if kind == 2 else (n,))
    args = [a, rand_scale(rng), rand_zp(rng, dtype), b, rand_scale(rng), rand_zp(rng, dtype),
            rand_scale(rng), rand_zp(rng, dtype)]
    return run_node("QLinearMul", args, "com.microsoft"), nm.qlinear_mul(*args)


def case_gap(rng, dtype):
    x = rand_q(rng, dtype, (1, int(rng.integers(1, 20)), *rng.integers(1, 12, 2)))
    args = [x, rand_scale(rng, -8, 0), rand_zp(rng, dtype), rand_scale(rng, -6, 0),
            rand_zp(rng, dtype)]
    got = run_node("QLinearGlobalAveragePool", args, "com.microsoft", channels_last=0)
    return got, nm.qlinear_global_average_pool(*args)


def case_avgpool(rng, dtype):
    k = [int(v) for v in rng.integers(1, 5, 2)]
    x = rand_q(rng, dtype, (1, int(rng.integers(1, 9)), *rng.integers(4, 14, 2)))
    strides = [int(v) for v in rng.integers(1, 4, 2)]
    pads = [int(rng.integers(0, k[i % 2])) for i in range(4)]
    inc = int(rng.integers(2))
    args = [x, rand_scale(rng), rand_zp(rng, dtype), rand_scale(rng), rand_zp(rng, dtype)]
    got = run_node("QLinearAveragePool", args, "com.microsoft", channels_last=0, kernel_shape=k,
                   strides=strides, pads=pads, count_include_pad=inc)
    return got, nm.qlinear_average_pool(*args, k, strides, pads, inc)


def case_matmul(rng, dtype):
    m, k, n = (int(v) for v in rng.integers(1, 40, 3))
    per_col = rng.integers(2)
    bt = np.int8 if dtype == np.int8 else rng.choice([np.int8, np.uint8])
    a, b = rand_q(rng, dtype, (m, k)), rand_q(rng, bt, (k, n))
    bs = np.array([rand_scale(rng) for _ in range(n)], F) if per_col else rand_scale(rng)
    bz = np.zeros(n, bt) if per_col else rand_zp(rng, bt)
    args = [a, rand_scale(rng), rand_zp(rng, dtype), b, bs, bz, rand_scale(rng, -4, 2),
            rand_zp(rng, dtype)]
    return run_node("QLinearMatMul", args), nm.qlinear_matmul(*args)


def case_gemm(rng, dtype):
    m, k, n = (int(v) for v in rng.integers(1, 40, 3))
    per_col, alpha = rng.integers(2), float(rng.choice([1.0, 0.5, 1.7]))
    bt = np.int8 if dtype == np.int8 else rng.choice([np.int8, np.uint8])
    a, b = rand_q(rng, dtype, (m, k)), rand_q(rng, bt, (k, n))
    bs = np.array([rand_scale(rng) for _ in range(n)], F) if per_col else rand_scale(rng)
    bz = np.zeros(n, bt) if per_col else rand_zp(rng, bt)
    c = rng.integers(-50000, 50000, n).astype(np.int32) if rng.integers(2) else None
    a_s, a_z, y_s, y_z = rand_scale(rng), rand_zp(rng, dtype), rand_scale(rng, -4, 2), rand_zp(rng, dtype)
    got = run_node("QGemm", [a, a_s, a_z, b, bs, bz, c, y_s, y_z], "com.microsoft", alpha=alpha)
    return got, nm.qgemm(a, a_s, a_z, b, bs, bz, c, y_s, y_z, alpha)


def case_conv(rng, dtype):
    g = int(rng.choice([1, 1, 2, 4]))
    cg, mg = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    k = [int(v) for v in rng.integers(1, 6, 2)]
    d = [int(v) for v in rng.integers(1, 4, 2)]
    s = [int(v) for v in rng.integers(1, 4, 2)]
    pads = [int(v) for v in rng.integers(0, 4, 4)]
    hw = [int(rng.integers(max(1, (k[i] - 1) * d[i] + 1 - pads[i] - pads[i + 2]), 16))
          for i in range(2)]
    wt = np.int8 if dtype == np.int8 or rng.random() < 0.6 else np.uint8
    x, w = rand_q(rng, dtype, (1, g * cg, *hw)), rand_q(rng, wt, (g * mg, cg, *k))
    per_ch = rng.integers(2)
    ws = np.array([rand_scale(rng) for _ in range(g * mg)], F) if per_ch else rand_scale(rng)
    wz = np.zeros(g * mg, wt) if per_ch else (rand_zp(rng, wt) if wt == np.uint8 else np.int8(0))
    bias = rng.integers(-20000, 20000, g * mg).astype(np.int32) if rng.integers(2) else None
    args = [x, rand_scale(rng), rand_zp(rng, dtype), w, ws, wz, rand_scale(rng, -3, 2),
            rand_zp(rng, dtype), bias]
    got = run_node("QLinearConv", args, strides=s, pads=pads, dilations=d, group=g)
    return got, nm.qlinear_conv(*args, s, pads, d, g)


def case_quantize(rng, dtype):
    x = (rng.standard_normal(200) * 10.0 ** rng.integers(-3, 6)).astype(F)
    scale = rand_scale(rng, -10, 4)
    x[:40] = (rng.integers(-300, 300, 40) + 0.5).astype(F) * scale
    x[40:46] = [np.nan, np.inf, -np.inf, 3e38, -3e38, -0.0]
    zp = rand_zp(rng, dtype)
    return run_node("QuantizeLinear", [x, scale, zp], out_type=dtype), \
        nm.quantize_linear(x, scale, zp, dtype)


def case_dequantize(rng, dtype):
    kind = np.int32 if rng.integers(3) == 0 else dtype
    x = rand_q(rng, kind, 100) if kind != np.int32 else rng.integers(-2**31, 2**31, 100).astype(kind)
    zp = np.int32(0) if kind == np.int32 else rand_zp(rng, kind)
    scale = rand_scale(rng, -10, 4)
    got = run_node("DequantizeLinear", [x, scale, zp], out_type=F)
    return got.view(np.uint32), nm.dequantize_linear(x, scale, zp).view(np.uint32)


def case_maxpool(rng, dtype):
    k = [int(v) for v in rng.integers(1, 5, 2)]
    x = rand_q(rng, dtype, (1, int(rng.integers(1, 9)), *rng.integers(4, 14, 2)))
    strides = [int(v) for v in rng.integers(1, 4, 2)]
    pads = [int(rng.integers(0, k[i % 2])) for i in range(4)]
    got = run_node("MaxPool", [x], kernel_shape=k, strides=strides, pads=pads)
    return got, nm.max_pool(x, k, strides, pads)


CASES = {name[5:]: fn for name, fn in list(globals().items()) if name.startswith("case_")}


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--count", type=int, default=200, help="cases per operator and type")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--only", choices=sorted(CASES))
    opt = ap.parse_args()
    wrong = 0
    for name, fn in CASES.items():
        if opt.only and name != opt.only:
            continue
        for dtype in (np.uint8, np.int8):
            rng = np.random.default_rng([opt.seed, len(name), dtype == np.int8])
            bad = diff = 0
            for _ in range(opt.count):
                got, want = fn(rng, dtype)
                assert got.shape == want.shape and got.dtype == want.dtype
                if not np.array_equal(got, want):
                    bad += 1
                    diff = max(diff, int(np.abs(got.astype(np.int64) - want).max()))
            print(f"{name:12} {np.dtype(dtype).name:6} {opt.count} cases, {bad} differ"
                  + (f", by up to {diff}" if bad else ""), flush=True)
            wrong += bad
    print(f"figure numerics.mismatches {wrong} cases")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
