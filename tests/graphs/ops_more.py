# SPDX-License-Identifier: MIT
"""Operators of onnxruntime's own domain, and rare ones of ONNX."""
from graph import BOOL, FLOAT, INT64, MOST_ELEMENTS, helper, np, op, prod
from ops_math import shape_with
from ops_net import image, weights
from ops_quant import MICROSOFT, byte, limits, parameters, picture, quantised, scalar, spread, store


@op(1, since=13)
def microsoft_unary(g):
    kind = g.choice(("Gelu", "FastGelu", "QuickGelu", "BiasGelu"))
    x = g.fit(g.any_float(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4))), -2, 10)
    inputs = [x] + ([g.fresh(FLOAT, x.shape[-1:], -1, 1)] if kind == "BiasGelu" or (kind == "FastGelu" and g.chance()) else [])
    return g.result(kind, inputs, FLOAT, x.shape, -1, 11, False, domain=MICROSOFT)


@op(0.7, since=13)
def fused_matmul(g):
    x = g.any_float(lambda v: 1 < v.rank < 4 and 0 not in v.shape, lambda: g.shape(g.between(2, 3)))
    ta, tb, n = g.between(0, 1), g.between(0, 1), g.between(1, 6)
    m, k = x.shape[-2:][::-1] if ta else x.shape[-2:]
    y = weights(g, (n, k) if tb else (k, n), k)
    top = x.top * y.top * k
    return g.result("FusedMatMul", [x, y], FLOAT, x.shape[:-2] + (m, n), -top, top, False, domain=MICROSOFT, transA=ta, transB=tb,
                    alpha=g.choice((1.0, 0.5)))


@op(0.7, since=13)
def skip_layer_norm(g):
    x = g.fresh(FLOAT, g.shape(3, 2, 5))
    skip = g.fresh(FLOAT, x.shape)
    size = x.shape[-1:]
    parts = [g.fresh(FLOAT, size), g.fresh(FLOAT, size)] + ([g.fresh(FLOAT, size)] if g.chance() else [])
    return g.result("SkipLayerNormalization", [x, skip] + parts, FLOAT, x.shape, -60, 60, False, domain=MICROSOFT, epsilon=0.01)


@op(0.7, since=13)
def fused_conv(g):
    x = image(g, 2)
    x = g.fit(x, -64, 64)
    out, c = g.between(1, 4), x.shape[1]
    w = weights(g, (out, c, 1, 1), c)
    top = x.top * w.top * c + 4
    return g.result("FusedConv", [x, w, g.fresh(FLOAT, (out,), dynamic=False)], FLOAT, (x.shape[0], out) + x.shape[2:], -top, top, False,
                    domain=MICROSOFT, activation=g.choice(("Relu", "Tanh", "Sigmoid")))


@op(0.6, since=15)
def cast_like(g):
    x = g.exact([FLOAT, INT64, np.dtype(np.int32)])
    to = g.choice([FLOAT, INT64, np.dtype(np.int32)])
    if x.top > 2 ** 24:
        return False
    name, = g.node("CastLike", [x, g.fresh(to, (1,))])
    return g.add(name, to, x.shape, np.floor(x.lo), np.ceil(x.hi), True, x.grain if to == FLOAT else 1.0)


@op(0.4, since=11)
def max_unpool(g):
    n, c, h, w = g.between(1, 2), g.between(1, 3), g.between(1, 3), g.between(1, 3)
    x = g.fresh(FLOAT, (n, c, h, w))
    # Each maximum lies in its own window of two by two.
    at = (2 * np.arange(h)[:, None] + g.np.integers(0, 2, (n, c, h, w))) * 2 * w + 2 * np.arange(w) + g.np.integers(0, 2, (n, c, h, w))
    at = at + (np.arange(n * c) * 4 * h * w).reshape(n, c, 1, 1)
    return g.result("MaxUnpool", [x, g.value(at.astype(np.int64), 1.0)], FLOAT, (n, c, 2 * h, 2 * w), min(0, x.lo), max(0, x.hi), True, x.grain,
                    kernel_shape=[2, 2], strides=[2, 2])


@op(0.4, since=9, until=10)
def scatter(g):
    x = g.fresh(FLOAT, g.shape(2))
    i = g.np.permutation(x.shape[0])[:g.between(1, x.shape[0])][:, None].repeat(x.shape[1], 1).astype(np.int64)
    u = g.fresh(FLOAT, i.shape)
    return g.result("Scatter", [x, g.const(i), u], FLOAT, x.shape, min(x.lo, u.lo), max(x.hi, u.hi), True, min(x.grain, u.grain), axis=0)


@op(0.5, since=19)
def deform_conv(g):
    x = g.fresh(FLOAT, (1, g.between(1, 3), g.between(3, 5), g.between(3, 5)))
    out, (h, w) = g.between(1, 3), (x.shape[2] - 1, x.shape[3] - 1)
    offset = g.value(g.np.uniform(-0.9, 0.9, (1, 8, h, w)).astype(np.float32), 0.0)
    mask = [g.const(np.zeros(out, np.float32)), g.fresh(FLOAT, (1, 4, h, w), 0, 1)] if g.chance() else []
    return g.result("DeformConv", [x, weights(g, (out, x.shape[1], 2, 2), 4), offset] + mask, FLOAT, (1, out, h, w), -200, 200, False, kernel_shape=[2, 2])


@op(0.4, since=17)
def mel(g):
    inputs = [g.const(np.int64(v)) for v in (g.between(2, 8), g.choice((16, 32, 64)), 8000)] + [g.const(np.float32(v)) for v in (0, 4000)]
    bins = next(t for t in g.constants if t.name == inputs[1]) if any(t.name == inputs[1] for t in g.constants) else None
    if bins is None or not any(t.name == inputs[0] for t in g.constants):
        return False
    value = {t.name: np.frombuffer(t.raw_data, np.int64)[0] for t in g.constants if t.name in inputs[:2]}
    return g.result("MelWeightMatrix", inputs, FLOAT, (value[inputs[1]] // 2 + 1, value[inputs[0]]), 0, 1, False)


@op(0.5, since=11)
def scan(g):
    """Sums along an axis that a subgraph computes."""
    x = g.any_float(lambda v: v.rank == 2 and v.shape[0] < 6 and 0 not in v.shape, lambda: (g.between(1, 5), g.between(1, 5)))
    names = [g.name("s") for _ in range(4)]
    infos = [helper.make_tensor_value_info(n, 1, x.shape[1:]) for n in names]
    body = helper.make_graph([helper.make_node("Add", names[:2], names[2:3]), helper.make_node("Identity", names[2:3], names[3:])], "body", infos[:2], infos[2:])
    outs = g.node("Scan", [g.const(np.zeros(x.shape[1:], np.float32)), x], 2, body=body, num_scan_inputs=1)
    top = x.top * x.shape[0]
    g.add(outs[0], FLOAT, x.shape[1:], -top, top, x.exact and bool(x.grain), x.grain)
    return g.add(outs[1], FLOAT, x.shape, -top, top, x.exact and bool(x.grain), x.grain)


@op(0.4, since=13)
def max_roi_pool(g):
    x = image(g, 2, channels=3)
    boxes = np.array([[0, 0, 0, x.shape[3] - 1, x.shape[2] - 1]], np.float32)
    return g.result("MaxRoiPool", [x, g.const(boxes)], FLOAT, (1, x.shape[1], 2, 2), x.lo, x.hi, x.exact, x.grain, pooled_shape=[2, 2])


@op(1, since=13)
def q_microsoft_pool(g):
    """QLinearAveragePool and QLinearGlobalAveragePool."""
    x = picture(g)
    quant = parameters(g, x.quant[0] * g.rng.uniform(0.5, 1.1))
    parts = [x, scalar(g, x.quant[0], np.float32), scalar(g, x.quant[1]), scalar(g, quant[0], np.float32), scalar(g, quant[1])]
    if g.chance():
        name, = g.node("QLinearGlobalAveragePool", parts, domain=MICROSOFT, channels_last=0)
        return store(g, name, x.shape[:2] + (1, 1), quant)
    if min(x.shape[2:]) < 2:
        return False
    name, = g.node("QLinearAveragePool", parts, domain=MICROSOFT, kernel_shape=[2, 2], channels_last=0)
    return store(g, name, x.shape[:2] + (x.shape[2] - 1, x.shape[3] - 1), quant)


@op(0.7, since=13)
def q_microsoft_concat(g):
    x = picture(g)
    if 2 * x.size > MOST_ELEMENTS:
        return False
    y = g.value(g.np.integers(*limits(byte(g)), x.shape, endpoint=True).astype(byte(g)), 1.0, True)
    y.quant = parameters(g)
    quant = parameters(g, max(x.quant[0], y.quant[0]))
    parts = [scalar(g, quant[0], np.float32), scalar(g, quant[1])]
    for v in (x, y):
        parts += [v, scalar(g, v.quant[0], np.float32), scalar(g, v.quant[1])]
    name, = g.node("QLinearConcat", parts, domain=MICROSOFT, axis=1)
    return store(g, name, (x.shape[0], 2 * x.shape[1]) + x.shape[2:], quant)


@op(0.7, since=13)
def q_microsoft_gemm(g):
    x = quantised(g, lambda v: v.rank == 2 and 0 not in v.shape, lambda: (g.between(1, 5), g.between(1, 12)))
    (m, k), n = x.shape, g.between(1, 8)
    base = 2.0 ** g.between(-9, -5)
    quant = parameters(g, spread(g, x.quant, base, k))
    w = g.np.integers(-128, 128, (n, k)).astype(np.int8)
    parts = [x, scalar(g, x.quant[0], np.float32), scalar(g, x.quant[1]), g.const(w), scalar(g, base, np.float32), scalar(g, 0, np.int8),
             g.const(g.np.integers(-9000, 9000, n).astype(np.int32)), scalar(g, quant[0], np.float32), scalar(g, quant[1])]
    name, = g.node("QGemm", parts, domain=MICROSOFT, transB=1)
    return store(g, name, (m, n), quant)


@op(0.5, since=18)
def bitwise_shape(g):
    """Bitwise operators with broadcasting."""
    x = g.exact([np.dtype(np.int32), INT64, np.dtype(np.uint8)])
    y = g.partner(x, lambda v: v.exact)
    if not y.exact or prod(shape_with(x, y)) > MOST_ELEMENTS:
        return False
    return g.result(g.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor")), [x, y], x.dtype, shape_with(x, y), -2 ** 24, 2 ** 24, True, 1.0)


@op(0.4, since=13)
def any_bool(g):
    """Reductions of bool, which opset 20 has."""
    if g.opset < 20:
        return False
    x = g.exact([BOOL], lambda v: v.rank > 0, lambda: g.shape(g.between(1, 3)))
    return g.result(g.choice(("ReduceMax", "ReduceMin")), [x, g.ints(0)], BOOL, (1,) + x.shape[1:], 0, 1, True, 1.0, keepdims=1)
