# SPDX-License-Identifier: MIT
"""Exact numpy oracles of onnxruntime's integer operators (docs/numerics.md).

Every function takes numpy arrays and Python/numpy scalars and returns what
onnxruntime returns on x86 with session.x64quantprecision=1 and
session.qdqisint8allowed=1, bit for bit. check_numerics.py compares them.
"""
import numpy as np

F = np.float32


def qrange(dtype):
    info = np.iinfo(dtype)
    return info.min, info.max


def fma32(a, b, c):
    """float32(a * b + c) with one rounding.

    The product of two float32 is exact in float64. The float64 sum is forced
    to odd when it is inexact, so that the second rounding cannot go wrong.
    """
    p = np.multiply(np.asarray(a, F), np.asarray(b, F), dtype=np.float64)
    c = np.asarray(c, np.float64)
    s = np.atleast_1d(p + c)
    bv = s - p
    err = np.atleast_1d((p - (s - bv)) + (c - bv))
    odd = (s.view(np.int64) & 1) != 0
    toward = np.where(err > 0, np.inf, -np.inf)
    s = np.where((err != 0) & ~odd, np.nextafter(s, toward), s)
    return s.astype(F).reshape(np.broadcast_shapes(p.shape, c.shape))


def requantize(acc, scale, zp, dtype):
    """clamp(rint(float32(acc) * scale), qmin - zp, qmax - zp) + zp; scale is float32."""
    lo, hi = qrange(dtype)
    zp = int(zp)
    v = acc.astype(F) * np.asarray(scale, F)
    v = np.minimum(np.maximum(v, F(lo - zp)), F(hi - zp))
    return (np.rint(v).astype(np.int32) + zp).astype(dtype)


def conv_scale(xs, ws, ys):
    """The multiplier of QLinearConv and QLinearMatMul: float32(float32(xs * ws) / ys)."""
    return (F(xs) * np.asarray(ws, F)).astype(F) / F(ys)


def conv_acc(x, x_zp, w, w_zp, bias, strides, pads, dilations, group):
    """int64 accumulators [N, M, OH, OW]; padding contributes zero."""
    n, c, _, _ = x.shape
    m, cg, kh, kw = w.shape
    xi = x.astype(np.int64) - int(x_zp)
    wi = w.astype(np.int64) - np.asarray(w_zp, np.int64).reshape(-1, 1, 1, 1)
    xi = np.pad(xi, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    eh, ew = (kh - 1) * dilations[0] + 1, (kw - 1) * dilations[1] + 1
    win = np.lib.stride_tricks.sliding_window_view(xi, (eh, ew), axis=(2, 3))
    win = win[:, :, ::strides[0], ::strides[1], ::dilations[0], ::dilations[1]]
    oh, ow = win.shape[2:4]
    win = win.reshape(n, group, cg, oh, ow, kh, kw).transpose(1, 0, 3, 4, 2, 5, 6)
    cols = win.reshape(group, n * oh * ow, cg * kh * kw)
    kern = wi.reshape(group, m // group, cg * kh * kw).transpose(0, 2, 1)
    acc = np.matmul(cols, kern).reshape(group, n, oh, ow, m // group)
    acc = acc.transpose(1, 0, 4, 2, 3).reshape(n, m, oh, ow)
    if bias is not None:
        acc = acc + bias.astype(np.int64).reshape(1, -1, 1, 1)
    return acc


def qlinear_conv(x, xs, x_zp, w, ws, w_zp, ys, y_zp, bias=None, strides=(1, 1),
                 pads=(0, 0, 0, 0), dilations=(1, 1), group=1):
    acc = conv_acc(x, x_zp, w, w_zp, bias, strides, pads, dilations, group)
    assert np.abs(acc).max(initial=0) < 2 ** 31, "accumulator leaves int32"
    scale = np.broadcast_to(conv_scale(xs, ws, ys), (w.shape[0],)).reshape(1, -1, 1, 1)
    return requantize(acc, scale, y_zp, x.dtype)


def qlinear_matmul(a, as_, a_zp, b, bs, b_zp, ys, y_zp):
    """bs and b_zp: scalar, or one per column of b."""
    acc = np.matmul(a.astype(np.int64) - int(a_zp),
                    b.astype(np.int64) - np.asarray(b_zp, np.int64))
    return requantize(acc, conv_scale(as_, bs, ys), y_zp, a.dtype)


def qgemm(a, as_, a_zp, b, bs, b_zp, c, ys, y_zp, alpha=1.0):
    """com.microsoft.QGemm; c is int32 of scale alpha * as_ * bs, or None."""
    acc = np.matmul(a.astype(np.int64) - int(a_zp),
                    b.astype(np.int64) - np.asarray(b_zp, np.int64))
    if c is not None:
        acc = acc + c.astype(np.int64)
    scale = (F(F(alpha) * F(as_)) * np.asarray(bs, F)).astype(F) / F(ys)
    return requantize(acc, scale, y_zp, a.dtype)


def add_params(as_, a_zp, bs, b_zp, ys, y_zp):
    """(ra, rb, c) of qlinear_add."""
    ra, rb = F(as_) / F(ys), F(bs) / F(ys)
    inner = fma32(ra, F(int(a_zp)), F(rb * F(int(b_zp))))
    return ra, rb, F(F(int(y_zp)) - F(inner))


def cvt_clamp(v, dtype):
    """cvtps2dq (ties to even; out of int32 range gives INT32_MIN) and saturating pack."""
    lo, hi = qrange(dtype)
    r = np.rint(v.astype(np.float64))
    r = np.where((r >= 2.0 ** 31) | (r < -2.0 ** 31) | np.isnan(r), -2.0 ** 31, r)
    return np.clip(r.astype(np.int64), lo, hi).astype(dtype)


def qlinear_add(a, as_, a_zp, b, bs, b_zp, ys, y_zp):
    """com.microsoft.QLinearAdd; same shapes, or one operand with one element.

    A first operand that is the broadcast one changes places with the second.
    """
    if a.size == 1 and b.size != 1:
        return qlinear_add(b, bs, b_zp, a, as_, a_zp, ys, y_zp)
    ra, rb, c = add_params(as_, a_zp, bs, b_zp, ys, y_zp)
    v = fma32(a.astype(F), ra, fma32(b.astype(F), rb, c))
    return cvt_clamp(v, a.dtype)


def qlinear_mul(a, as_, a_zp, b, bs, b_zp, ys, y_zp):
    """com.microsoft.QLinearMul; two roundings (multiply, then add the zero point)."""
    r = F(F(as_) * F(bs)) / F(ys)
    p = (a.astype(np.int32) - int(a_zp)) * (b.astype(np.int32) - int(b_zp))
    v = (p.astype(F) * r + F(int(y_zp))).astype(F)
    return cvt_clamp(v, a.dtype)


def qlinear_global_average_pool(x, xs, x_zp, ys, y_zp):
    """NCHW; one multiply with float32(xs / float32(ys * count))."""
    count = int(np.prod(x.shape[2:]))
    acc = x.astype(np.int64).sum(axis=(2, 3), keepdims=True) - int(x_zp) * count
    return requantize(acc, F(xs) / F(F(ys) * F(count)), y_zp, x.dtype)


def pool_windows(size, kernel, stride, begin, end):
    """[(first, last)] of each output position, clipped to the input."""
    out = (size + begin + end - kernel) // stride + 1
    spans = []
    for o in range(out):
        first = o * stride - begin
        spans.append((max(first, 0), min(first + kernel, size)))
    return spans


def qlinear_average_pool(x, xs, x_zp, ys, y_zp, kernel, strides, pads, include_pad):
    """Float arithmetic: values dequantised, summed row by row in float32, divided twice."""
    deq = (F(xs) * (x.astype(np.int32) - int(x_zp)).astype(F)).astype(F)
    rows = pool_windows(x.shape[2], kernel[0], strides[0], pads[0], pads[2])
    cols = pool_windows(x.shape[3], kernel[1], strides[1], pads[1], pads[3])
    y = np.empty(x.shape[:2] + (len(rows), len(cols)), F)
    for i, (h0, h1) in enumerate(rows):
        for j, (w0, w1) in enumerate(cols):
            s = np.zeros(x.shape[:2], F)
            for h in range(h0, h1):
                for w in range(w0, w1):
                    s = (s + deq[:, :, h, w]).astype(F)
            n = kernel[0] * kernel[1] if include_pad else (h1 - h0) * (w1 - w0)
            y[:, :, i, j] = s / F(n)
    v = (y / F(ys)).astype(F) + F(int(y_zp))
    return cvt_clamp(v, x.dtype)


def max_pool(x, kernel, strides, pads):
    """The maximum of quantised values; padding is never the maximum."""
    rows = pool_windows(x.shape[2], kernel[0], strides[0], pads[0], pads[2])
    cols = pool_windows(x.shape[3], kernel[1], strides[1], pads[1], pads[3])
    y = np.empty(x.shape[:2] + (len(rows), len(cols)), x.dtype)
    for i, (h0, h1) in enumerate(rows):
        for j, (w0, w1) in enumerate(cols):
            y[:, :, i, j] = x[:, :, h0:h1, w0:w1].max(axis=(2, 3))
    return y


def quantize_linear(x, scale, zp, dtype):
    """clamp(x / scale) in float32, then ties to even; NaN goes to qmin."""
    lo, hi = qrange(dtype)
    zp = np.asarray(zp, np.int32)
    with np.errstate(all="ignore"):
        v = np.asarray(x, F) / np.asarray(scale, F)
    v = np.where(np.isnan(v), (lo - zp).astype(F), v)
    v = np.minimum(np.maximum(v, (lo - zp).astype(F)), (hi - zp).astype(F))
    return (np.rint(v).astype(np.int32) + zp).astype(dtype)


def dequantize_linear(x, scale, zp=0):
    """float32(int32(x) - zp) * scale; x may be int8, uint8 or int32."""
    d = x.astype(np.int64) - np.asarray(zp, np.int64)
    return (d.astype(np.int32).astype(F) * np.asarray(scale, F)).astype(F)
