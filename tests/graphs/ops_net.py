# SPDX-License-Identifier: MIT
"""Operators of neural networks in float: products, pools, norms, resampling, recurrence, subgraphs."""
from fractions import Fraction

from graph import FLOAT, INT64, MOST_ELEMENTS, TensorProto, helper, np, op, prod


def image(g, dims=None, most=7, channels=6):
    """A float value of rank 3 to 5."""
    dims = dims or g.choice((1, 2, 2, 2, 2, 3))
    return g.any_float(lambda v: v.rank == dims + 2 and 0 not in v.shape,
                       lambda: (g.between(1, 2), g.between(1, channels)) + g.shape(dims, 1, most if dims < 3 else 4))


def window(g, spatial, most_kernel=3, dilate=True):
    """Kernel, strides, dilations, pads and the shape of the result of a window that fits."""
    n = len(spatial)
    kernel = [g.between(1, min(most_kernel, d + 1)) for d in spatial]
    strides = [g.between(1, 2) for _ in spatial]
    dilations = [g.choice((1, 1, 2)) if dilate else 1 for _ in spatial]
    before = [g.between(0, (k - 1) * e) if k > 1 else 0 for k, e in zip(kernel, dilations)]
    after = [g.between(0, (k - 1) * e) if k > 1 else 0 for k, e in zip(kernel, dilations)]
    before, after = [min(b, k - 1) for b, k in zip(before, kernel)], [min(b, k - 1) for b, k in zip(after, kernel)]
    out = [(d + b + a - e * (k - 1) - 1) // s + 1 if d + b + a >= e * (k - 1) + 1 else 0
           for d, b, a, e, k, s in zip(spatial, before, after, dilations, kernel, strides)]
    return (kernel, strides, dilations, before + after, out) if min(out) > 0 else (None,) * 4 + ([0] * n,)


def sees_padding_alone(spatial, kernel, strides, dilations, pads, shape):
    """Whether a window has no element, which makes the maximum -3.4e38 (docs/numerics.md 10)."""
    axes = zip(spatial, kernel, strides, dilations, pads, shape)
    return any(all(not 0 <= o * s - b + j * e < d for j in range(k)) for d, k, s, e, b, n in axes for o in range(n))


def auto(g, spatial, kernel, strides, dilations):
    """auto_pad and the shape of its result."""
    kind = g.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    if kind == "VALID":
        return kind, [(d - e * (k - 1) - 1) // s + 1 for d, e, k, s in zip(spatial, dilations, kernel, strides)]
    return kind, [-(-d // s) for d, s in zip(spatial, strides)]


def weights(g, shape, fan):
    """Constant weights, a product with which keeps the size of values."""
    array = g.np.normal(0, 1 / np.sqrt(max(1, fan)), shape).astype(np.float32)
    return g.value(array, 0.0, g.chance(0.15))


@op(5)
def conv(g):
    x = image(g)
    x = g.fit(x, -256, 256)
    n, c = x.shape[:2]
    group = g.choice([d for d in range(1, c + 1) if c % d == 0])
    out = group * g.between(1, 4)
    kernel, strides, dilations, pads, shape = window(g, x.shape[2:])
    if kernel is None or prod(shape) * n * out > MOST_ELEMENTS:
        return False
    attributes = {"pads": pads}
    if g.chance(0.15) and all(d == 1 for d in dilations):
        kind, shape = auto(g, x.shape[2:], kernel, strides, dilations)
        attributes = {"auto_pad": kind}
        if min(shape) < 1:
            return False
    w = weights(g, [out, c // group] + kernel, c // group * prod(kernel))
    inputs = [x, w] + ([g.fresh(FLOAT, (out,), dynamic=False)] if g.chance(0.6) else [])
    top = x.top * w.top * (c // group) * prod(kernel) + 4
    y = g.result("Conv", inputs, FLOAT, [n, out] + shape, -top, top, False, strides=strides, dilations=dilations, group=group, kernel_shape=kernel,
                 **attributes)
    if g.chance(0.4) and len(shape) == 2:
        norm(g, y)
    return y


def norm(g, x):
    c = x.shape[1]
    parts = [g.np.uniform(0.5, 1.5, c), g.np.normal(0, 0.5, c), g.np.normal(0, 0.5, c), g.np.uniform(0.5, 1.5, c)]
    top = 3 * (x.top + 2) + 2
    return g.result("BatchNormalization", [x] + [g.const(p.astype(np.float32)) for p in parts], FLOAT, x.shape, -top, top, False)


@op(1, since=7)
def batch_norm(g):
    x = image(g)
    return norm(g, x)


@op(2)
def conv_transpose(g):
    x = image(g, most=5)
    x = g.fit(x, -256, 256)
    n, c = x.shape[:2]
    group = g.choice([d for d in range(1, c + 1) if c % d == 0])
    out = g.between(1, 3)
    kernel = [g.between(1, 3) for _ in x.shape[2:]]
    strides = [g.between(1, 2) for _ in kernel]
    dilations = [g.choice((1, 1, 2)) for _ in kernel]
    extra = [g.between(0, s - 1) for s in strides]
    pads = [g.between(0, k - 1) for k in kernel * 2]
    r = len(kernel)
    shape = [(d - 1) * s + o + (k - 1) * e + 1 - pads[i] - pads[i + r]
             for i, (d, s, o, k, e) in enumerate(zip(x.shape[2:], strides, extra, kernel, dilations))]
    if min(shape) < 1 or prod(shape) * n * out * group > MOST_ELEMENTS:
        return False
    w = weights(g, [c, out] + kernel, c // group * prod(kernel))
    inputs = [x, w] + ([g.fresh(FLOAT, (out * group,), dynamic=False)] if g.chance() else [])
    top = x.top * w.top * c * prod(kernel) + 4
    return g.result("ConvTranspose", inputs, FLOAT, [n, out * group] + shape, -top, top, False, strides=strides, dilations=dilations, group=group,
                    pads=pads, output_padding=extra, kernel_shape=kernel)


def ceil_shape(spatial, kernel, strides, dilations, pads):
    r = len(kernel)
    shape = []
    for i, (d, k, s, e) in enumerate(zip(spatial, kernel, strides, dilations)):
        n = -(-(d + pads[i] + pads[i + r] - e * (k - 1) - 1) // s) + 1
        shape.append(n - 1 if (n - 1) * s >= d + pads[i] else n)
    return shape


@op(3, since=7)
def pool(g):
    kind = g.choice(("MaxPool", "AveragePool", "LpPool", "MaxPool"))
    x = image(g)
    n, c = x.shape[:2]
    dilate = (kind == "MaxPool" and g.opset >= 10) or (kind == "AveragePool" and g.opset >= 19)
    kernel, strides, dilations, pads, shape = window(g, x.shape[2:], dilate=dilate)
    if kernel is None:
        return False
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations if dilate else None}
    if g.chance(0.3) and g.opset >= 10 and kind != "LpPool":
        shape = ceil_shape(x.shape[2:], kernel, strides, dilations, pads)
        attributes["ceil_mode"] = 1
    if kind == "MaxPool" and sees_padding_alone(x.shape[2:], kernel, strides, dilations, pads, shape):
        return False
    if kind == "AveragePool":
        attributes["count_include_pad"] = g.choice((None, 1))
    if kind == "LpPool":
        x = g.fit(x, 0.25, 16)
        attributes["p"] = g.between(1, 2)
    top = x.top * (prod(kernel) if kind == "LpPool" else 1)
    if kind != "MaxPool":
        return g.result(kind, [x], FLOAT, [n, c] + shape, -top, top, False, **attributes)
    names = g.node(kind, [x], 2 if g.opset >= 8 and x.exact and not dilate and g.chance(0.3) else 1, **attributes)
    if len(names) > 1:
        g.add(names[1], INT64, [n, c] + shape, 0, 2 ** 20, True, 1.0)
    return g.add(names[0], FLOAT, [n, c] + shape, x.lo, x.hi, x.exact, x.grain)


@op(1)
def global_pool(g):
    kind = g.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
    x = image(g)
    if kind == "GlobalLpPool":
        x = g.fit(x, 0.25, 16)
    top = x.top * (prod(x.shape[2:]) if kind == "GlobalLpPool" else 1)
    return g.result(kind, [x], FLOAT, x.shape[:2] + (1,) * (x.rank - 2), -top, top, kind == "GlobalMaxPool" and x.exact)


@op(2, since=7)
def gemm(g):
    x = g.any_float(lambda v: v.rank == 2 and 0 not in v.shape, lambda: (g.between(1, 6), g.between(1, 9)))
    ta, tb = g.between(0, 1), g.between(0, 1)
    m, k = x.shape[::-1] if ta else x.shape
    n = g.between(1, 8)
    w = weights(g, (n, k) if tb else (k, n), k)
    c = g.fresh(FLOAT, g.choice(((n,), (1, n), (m, n), (m, 1), (1,), ())), dynamic=g.chance(0.2))
    alpha, beta = g.choice((1.0, 1.0, 0.5)), g.choice((1.0, 1.0, 2.0))
    inputs = [x, w, c] if g.opset < 11 or g.chance(0.7) else [x, w]
    top = x.top * w.top * k + 8
    return g.result("Gemm", inputs, FLOAT, (m, n), -top, top, False, transA=ta, transB=tb, alpha=alpha, beta=beta)


@op(3)
def matmul(g):
    x = g.any_float(lambda v: 0 < v.rank < 5 and 0 not in v.shape, lambda: g.shape(g.between(1, 4)))
    k = x.shape[-1]
    batch = tuple(1 if g.chance(0.3) else d for d in x.shape[:-2]) if g.chance(0.5) else ()
    n = g.between(1, 7)
    shape = batch + (k, n) if g.chance(0.9) else (k,)
    y = g.fresh(FLOAT, shape) if g.chance(0.7) else weights(g, shape, k)
    top = x.top * y.top * k
    full = np.matmul(np.zeros(x.shape, np.int8), np.zeros(y.shape, np.int8)).shape
    grain = x.grain * y.grain
    exact = bool(grain) and x.exact and top / grain < 2 ** 22
    return g.result("MatMul", [x, y], FLOAT, full, -top, top, exact, grain if exact else 0.0)


@op(1.5)
def normalise(g):
    kinds = ["InstanceNormalization", "LRN"] + (["LayerNormalization"] if g.opset >= 17 else []) + \
        (["GroupNormalization"] if g.opset >= 21 else []) + (["RMSNormalization"] if g.opset >= 23 else []) + \
        (["MeanVarianceNormalization"] if g.opset >= 9 else [])
    kind = g.choice(kinds)
    if kind in ("LayerNormalization", "RMSNormalization"):
        x = g.any_float(lambda v: v.rank > 1 and v.shape[-1] > 1, lambda: g.shape(g.between(2, 4), 2))
        if x is None:
            return False
        axis = g.between(1, x.rank - 1)
        parts = [g.fresh(FLOAT, x.shape[axis:]) for _ in range(1 if kind == "RMSNormalization" else g.between(1, 2))]
        return g.result(kind, [x] + parts, FLOAT, x.shape, -1e3, 1e3, False, axis=axis if g.chance() else axis - x.rank, epsilon=1e-2)
    x = image(g, 2)
    c = x.shape[1]
    if kind == "LRN":
        return g.result(kind, [x], FLOAT, x.shape, -x.top, x.top, False, size=g.choice((1, 3, 5)), alpha=0.1, beta=0.75, bias=1.0)
    if x.shape[2] * x.shape[3] < 2:
        return False
    if kind == "MeanVarianceNormalization":
        # Of a channel of equal values it is 0 / 0, after rounding anything.
        x = g.fresh(FLOAT, (g.between(1, 2), g.between(1, 4), g.between(2, 5), g.between(2, 5)))
        return g.result(kind, [x], FLOAT, x.shape, -40, 40, False, axes=g.choice(([0, 2, 3], [2, 3], [1, 2, 3])))
    parts = [g.fresh(FLOAT, (c,)), g.fresh(FLOAT, (c,))]
    groups = g.choice([d for d in range(1, c + 1) if c % d == 0]) if kind == "GroupNormalization" else None
    return g.result(kind, [x] + parts, FLOAT, x.shape, -1e3, 1e3, False, epsilon=1e-2, num_groups=groups)


def touches_tie(spatial, to, way):
    """Whether a place lies on an element or between two, but for the rounding of a scale in float32."""
    for d, n in zip(spatial, to):
        scale = Fraction(n, d)
        if Fraction(float(np.float32(n / d))) == scale or way == "align_corners":
            continue
        half = Fraction(1, 2) if "half_pixel" in way else 0
        if any((2 * ((i + half) / scale - half)).denominator == 1 for i in range(n)):
            return True
    return False


@op(2.5, since=11)
def resize(g):
    x = image(g, g.choice((1, 2, 2)), most=5, channels=3)
    mode = g.choice(("nearest", "nearest", "linear", "cubic"))
    if mode == "cubic" and x.rank != 4:
        mode = "linear"
    ways = ["half_pixel", "asymmetric", "align_corners"] + (["pytorch_half_pixel"])
    way = g.choice(ways)
    to = [g.between(1, 9) for _ in x.shape[2:]]
    full = list(x.shape[:2]) + to
    if prod(full) > MOST_ELEMENTS:
        return False
    if mode == "nearest" and touches_tie(x.shape[2:], to, way):
        return False
    attributes = {"mode": mode, "coordinate_transformation_mode": way}
    if mode == "nearest":
        attributes["nearest_mode"] = g.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic":
        attributes["cubic_coeff_a"] = g.choice((-0.75, -0.5))
        attributes["exclude_outside"] = g.choice((None, 1)) if way != "align_corners" else None
    roi = "" if g.opset >= 13 else g.const(np.zeros(0, np.float32))
    if g.chance(0.5):
        inputs = [x, roi, "" if g.opset >= 13 else g.const(np.zeros(0, np.float32)), g.ints(*full)]
    else:
        scale = [g.choice((0.5, 1.0, 1.5, 2.0, 3.0)) for _ in to]
        # With align_corners ONNX and onnxruntime differ in the length of a result that is no whole number.
        if way == "align_corners" and any(d * s != int(d * s) for d, s in zip(x.shape[2:], scale)):
            return False
        full = list(x.shape[:2]) + [int(d * s) for d, s in zip(x.shape[2:], scale)]
        if min(full) < 1 or prod(full) > MOST_ELEMENTS:
            return False
        inputs = [x, roi, g.const(np.array([1, 1] + scale, np.float32))]
    exact = mode == "nearest" and x.exact
    top = x.top * (3 if mode == "cubic" else 1)
    return g.result("Resize", inputs, FLOAT, full, x.lo if exact else -top, x.hi if exact else top, exact, x.grain if exact else 0.0, **attributes)


@op(1, since=9, until=9)
def upsample(g):
    x = image(g, 2, most=4)
    scale = [g.choice((1, 2, 3)) for _ in range(2)]
    full = [x.shape[0], x.shape[1], x.shape[2] * scale[0], x.shape[3] * scale[1]]
    if prod(full) > MOST_ELEMENTS:
        return False
    return g.result("Upsample", [x, g.const(np.array([1, 1] + scale, np.float32))], FLOAT, full, x.lo, x.hi, False, mode=g.choice(("nearest", "linear")))


@op(0.8, since=16)
def grid_sample(g):
    x = image(g, 2, most=6, channels=3)
    h, w = g.between(1, 5), g.between(1, 5)
    grid = g.value(g.np.uniform(-1.2, 1.2, (x.shape[0], h, w, 2)).astype(np.float32), 0.0)
    mode = g.choice(("linear", "cubic", "nearest") if g.opset >= 20 else ("bilinear", "bicubic", "nearest"))
    top = 4 * x.top
    return g.result("GridSample", [x, grid], FLOAT, (x.shape[0], x.shape[1], h, w), -top, top, False, mode=mode,
                    padding_mode=g.choice(("zeros", "border", "reflection")), align_corners=g.between(0, 1))


@op(0.5, since=10)
def roi_align(g):
    x = image(g, 2, channels=3)
    n = g.between(1, 3)
    corner = g.np.uniform(0, 3, (n, 2))
    boxes = np.concatenate([corner, corner + g.np.uniform(1, 4, (n, 2))], 1).astype(np.float32)
    batch = g.np.integers(0, x.shape[0], n).astype(np.int64)
    h, w = g.between(1, 3), g.between(1, 3)
    way = g.choice(("half_pixel", "output_half_pixel")) if g.opset >= 16 else None
    return g.result("RoiAlign", [x, g.value(boxes, 0.0), g.value(batch, 1.0)], FLOAT, (n, x.shape[1], h, w), -x.top, x.top, False, mode="avg",
                    output_height=h, output_width=w, sampling_ratio=g.between(0, 2), spatial_scale=g.choice((1.0, 0.5)),
                    coordinate_transformation_mode=way)


@op(0.5, since=18)
def col2im(g):
    h, w, k = g.between(2, 5), g.between(2, 5), g.between(1, 2)
    blocks = (h - k + 1) * (w - k + 1)
    x = g.fresh(FLOAT, (1, g.between(1, 2) * k * k, blocks))
    return g.result("Col2Im", [x, g.ints(h, w), g.ints(k, k)], FLOAT, (1, x.shape[1] // (k * k), h, w), -x.top * k * k, x.top * k * k, False)


@op(0.5, since=20)
def affine_grid(g):
    n, h, w = g.between(1, 2), g.between(2, 4), g.between(2, 4)
    theta = g.fresh(FLOAT, (n, 2, 3))
    return g.result("AffineGrid", [theta, g.ints(n, 1, h, w)], FLOAT, (n, h, w, 2), -12, 12, False, align_corners=g.between(0, 1))


@op(1, since=7)
def recurrent(g):
    kind = g.choice(("LSTM", "GRU", "RNN"))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    steps, batch, size, hidden = g.between(1, 4), g.between(1, 2), g.between(1, 4), g.between(1, 4)
    x = g.any_float(lambda v: v.rank == 3 and v.size < 200, lambda: (steps, batch, size))
    x = g.fit(x, -4, 4)
    steps, batch, size = x.shape
    direction = g.choice(("forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    inputs = [x, weights(g, (d, gates * hidden, size), size), weights(g, (d, gates * hidden, hidden), hidden)]
    if g.chance(0.7):
        inputs.append(g.fresh(FLOAT, (d, 2 * gates * hidden), -1, 1, dynamic=False))
        if g.chance(0.3):
            inputs.append(g.value(g.np.integers(1, steps, batch, endpoint=True).astype(np.int32), 1.0))
    outputs = g.node(kind, inputs, 3 if kind == "LSTM" else 2, hidden_size=hidden, direction=direction,
                     linear_before_reset=g.between(0, 1) if kind == "GRU" else None)
    for name in outputs[1:]:
        g.add(name, FLOAT, (d, batch, hidden), -8, 8, False)
    return g.add(outputs[0], FLOAT, (steps, d, batch, hidden), -1, 1, False)


@op(0.6, since=23)
def attention(g):
    n, heads, q, k, size = g.between(1, 2), g.between(1, 2), g.between(1, 4), g.between(1, 4), g.between(1, 4)
    parts = [g.fresh(FLOAT, (n, heads, q, size)), g.fresh(FLOAT, (n, heads, k, size)), g.fresh(FLOAT, (n, heads, k, size))]
    causal = g.choice((None, 1)) if q <= k else None
    return g.result("Attention", parts, FLOAT, (n, heads, q, size), -4, 4, False, is_causal=causal)


@op(0.5, since=23)
def rotary(g):
    n, heads, steps, size = g.between(1, 2), g.between(1, 3), g.between(1, 4), 2 * g.between(1, 3)
    x = g.fresh(FLOAT, (n, heads, steps, size))
    angle = g.np.uniform(-3, 3, (n, steps, size // 2))
    return g.result("RotaryEmbedding", [x, g.const(np.cos(angle).astype(np.float32)), g.const(np.sin(angle).astype(np.float32))], FLOAT, x.shape, -8, 8,
                    False, interleaved=g.between(0, 1))


@op(0.4, since=11)
def non_max_suppression(g):
    n = g.between(1, 8)
    corner = g.np.integers(0, 20, (1, n, 2))
    boxes = np.concatenate([corner, corner + g.np.integers(2, 9, (1, n, 2))], 2).astype(np.float32)
    scores = (g.np.permutation(n * 2).reshape(1, 2, n) / 32).astype(np.float32)
    name, = g.node("NonMaxSuppression", [g.value(boxes, 1.0), g.value(scores, 0.0, True), g.ints(g.between(1, 4)), g.const(np.array([0.45], np.float32)),
                                         g.const(np.array([0.1], np.float32))])
    return g.add(name, INT64, None, 0, 0, True)


def subgraph(name, nodes, outputs, inputs=()):
    return helper.make_graph(nodes, name, list(inputs), outputs)


@op(0.6, since=11)
def branch(g):
    """If with a condition that is known at run time, or a constant one."""
    x = g.any_float(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 3)))
    c = g.value(np.array(g.chance()), 1.0, g.chance(0.5))
    then, other, out = g.name("b"), g.name("b"), g.name("t")
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n in (then, other)]
    x.used = True
    g.raw("If", [c], [out], then_branch=subgraph("then", [helper.make_node("Tanh", [x.name], [then])], info[:1]),
          else_branch=subgraph("else", [helper.make_node("Neg", [x.name], [other])], info[1:]))
    return g.add(out, FLOAT, x.shape, -max(1, x.top), max(1, x.top), False)


@op(0.5, since=11)
def loop(g):
    """Loop with a constant trip count, which adds a value of the outer graph."""
    x = g.any_float(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 3)))
    if x.size > 500:
        return False
    n = g.between(1, 4)
    i, c, s, so, co, scan = (g.name("l") for _ in range(6))
    x.used = True
    body = helper.make_graph([helper.make_node("Add", [s, x.name], [so]), helper.make_node("Identity", [c], [co]), helper.make_node("Neg", [so], [scan])], "body",
                             [helper.make_tensor_value_info(i, TensorProto.INT64, []), helper.make_tensor_value_info(c, TensorProto.BOOL, []),
                              helper.make_tensor_value_info(s, TensorProto.FLOAT, x.shape)],
                             [helper.make_tensor_value_info(co, TensorProto.BOOL, []), helper.make_tensor_value_info(so, TensorProto.FLOAT, x.shape),
                              helper.make_tensor_value_info(scan, TensorProto.FLOAT, x.shape)])
    names = g.node("Loop", [g.const(np.int64(n)), g.const(np.bool_(True)), x], 2, body=body)
    top = x.top * (n + 1)
    g.add(names[1], FLOAT, (n,) + x.shape, -top, top, x.exact, x.grain)
    return g.add(names[0], FLOAT, x.shape, -top, top, x.exact, x.grain)
