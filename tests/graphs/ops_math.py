# SPDX-License-Identifier: MIT
"""Element-wise operators, comparisons, logic, integers, reductions and what works along an axis."""
import math

from graph import BOOL, FLOAT, INT64, INTS, MOST_ELEMENTS, MOST_RANK, TensorProto, axis_of, helper, np, op, prod

# Function of one float: first opset, domain, image of [lo, hi] in the domain, attributes.
UNARY = {
    "Abs": (6, -1e4, 1e4, lambda lo, hi: (0, max(abs(lo), abs(hi)))),
    "Neg": (6, -1e4, 1e4, lambda lo, hi: (-hi, -lo)),
    "Exp": (6, -6, 3, lambda lo, hi: (math.exp(lo), math.exp(hi))),
    "Log": (6, 0.25, 1e4, lambda lo, hi: (math.log(lo), math.log(hi))),
    "Sqrt": (6, 0.25, 1e4, lambda lo, hi: (math.sqrt(lo), math.sqrt(hi))),
    "Reciprocal": (6, 0.25, 1e4, lambda lo, hi: (1 / hi, 1 / lo)),
    "Erf": (9, -4, 4, lambda lo, hi: (-1, 1)),
    "Sin": (7, -6, 6, lambda lo, hi: (-1, 1)),
    "Cos": (7, -6, 6, lambda lo, hi: (-1, 1)),
    "Tan": (7, -1, 1, lambda lo, hi: (-1.6, 1.6)),
    "Asin": (7, -0.75, 0.75, lambda lo, hi: (-1, 1)),
    "Acos": (7, -0.75, 0.75, lambda lo, hi: (0.7, 2.5)),
    "Atan": (7, -1e3, 1e3, lambda lo, hi: (-1.6, 1.6)),
    "Sinh": (9, -3, 3, lambda lo, hi: (-10.1, 10.1)),
    "Cosh": (9, -3, 3, lambda lo, hi: (1, 10.1)),
    "Tanh": (6, -10, 10, lambda lo, hi: (-1, 1)),
    "Asinh": (9, -1e3, 1e3, lambda lo, hi: (-8, 8)),
    "Acosh": (9, 1.5, 1e3, lambda lo, hi: (0.9, 8)),
    "Atanh": (9, -0.75, 0.75, lambda lo, hi: (-1, 1)),
    "Relu": (6, -1e4, 1e4, lambda lo, hi: (max(lo, 0), max(hi, 0))),
    "LeakyRelu": (6, -1e4, 1e4, lambda lo, hi: (lo, hi if hi > 0 else 0)),
    "Elu": (6, -1e3, 1e3, lambda lo, hi: (max(lo, -2), max(hi, 0))),
    "Celu": (12, -1e3, 1e3, lambda lo, hi: (max(lo, -2), max(hi, 0))),
    "Selu": (6, -1e3, 1e3, lambda lo, hi: (-2, max(1.06 * hi, 0))),
    "Softplus": (1, -5, 10, lambda lo, hi: (0, max(hi, 0) + 0.7)),
    "Softsign": (1, -1e3, 1e3, lambda lo, hi: (-1, 1)),
    "Sigmoid": (6, -4, 10, lambda lo, hi: (0, 1)),
    "HardSigmoid": (6, -1e3, 1e3, lambda lo, hi: (0, 1)),
    "HardSwish": (14, -1e3, 1e3, lambda lo, hi: (-0.4, max(hi, 0))),
    "Mish": (18, -4, 10, lambda lo, hi: (-0.4, max(hi, 0))),
    "Gelu": (20, -3, 10, lambda lo, hi: (-0.2, max(hi, 0))),
}
ATTRIBUTES = {
    "LeakyRelu": lambda g: {"alpha": g.choice((0.01, 0.25))},
    "Elu": lambda g: {"alpha": g.choice((1.0, 1.5))},
    "Celu": lambda g: {"alpha": g.choice((1.0, 1.5))},
    "HardSigmoid": lambda g: {"alpha": g.choice((0.2, 0.125)), "beta": 0.5},
    "Gelu": lambda g: {"approximate": g.choice(("none", "tanh"))},
}
KEEP_GRAIN = ("Abs", "Neg", "Relu")
SAME_BITS = KEEP_GRAIN + ("Sqrt",)


@op(6, since=7)
def unary(g):
    kind = g.choice([k for k, row in UNARY.items() if row[0] <= g.opset])
    _, lo, hi, image = UNARY[kind]
    x = g.fit(g.any_float(), lo, hi)
    ends = image(x.lo, x.hi)
    exact = x.exact and kind in SAME_BITS
    return g.result(kind, [x], FLOAT, x.shape, *ends, exact, x.grain if kind in KEEP_GRAIN else 0.0, **ATTRIBUTES.get(kind, lambda g: {})(g))


@op(1, since=7)
def prelu(g):
    x = g.any_float()
    slope = g.fresh(FLOAT, g.choice(((1,) * x.rank, x.shape[-1:])), -1, 1) if x.rank else g.fresh(FLOAT, (), -1, 1)
    return g.result("PRelu", [x, slope], FLOAT, x.shape, -x.top, x.top, x.exact, 0.0)


@op(1.5)
def jumps(g):
    kind = g.choice([k for k, since in (("Floor", 1), ("Ceil", 1), ("Round", 11), ("Sign", 9), ("ThresholdedRelu", 10), ("Shrink", 9)) if since <= g.opset])
    x = g.exact([FLOAT])
    attributes = {"ThresholdedRelu": {"alpha": 0.75}, "Shrink": {"lambd": 0.5, "bias": 0.25}}.get(kind, {})
    grain = 1.0 if kind in ("Floor", "Ceil", "Round", "Sign") else 0.0
    return g.result(kind, [x], FLOAT, x.shape, math.floor(x.lo) - 1, math.ceil(x.hi) + 1, True, grain, **attributes)


def shape_with(x, y):
    return np.broadcast_shapes(x.shape, y.shape)


@op(6, since=7)
def arithmetic(g):
    kind = g.choice(("Add", "Sub", "Mul", "Div", "Add", "Mul"))
    x = g.any_float()
    if kind == "Div":
        y = g.fresh(FLOAT, g.choice((x.shape, x.shape[-1:], ())), 0.5, 3)
    else:
        y = g.partner(x)
    if kind == "Mul":
        x, y = g.fit(x, -64, 64), g.fit(y, -64, 64)
    x, y = (g.fit(v, -2048, 2048) for v in (x, y))
    pair = [y, x] if kind in ("Add", "Mul", "Sub") and g.chance(0.3) else [x, y]
    if kind == "Mul":
        ends = [a * b for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
        ends, grain = (min(ends), max(ends)), x.grain * y.grain
    elif kind == "Div":
        ends, grain = (-x.top / y.lo, x.top / y.lo), 0.0
    else:
        top = x.top + y.top
        ends, grain = ((x.lo + y.lo, x.hi + y.hi) if kind == "Add" else (-top, top)), min(x.grain, y.grain)
    return g.result(kind, pair, FLOAT, shape_with(x, y), *ends, x.exact and y.exact, grain)


@op(1, since=8)
def variadic(g):
    kind = g.choice(("Sum", "Mean", "Max", "Min"))
    x = g.any_float()
    parts = [x] + [g.partner(x) for _ in range(g.between(0, 2))]
    try:
        shape = np.broadcast_shapes(*[p.shape for p in parts])
    except ValueError:
        return False
    if prod(shape) > MOST_ELEMENTS or len(shape) > MOST_RANK:
        return False
    top = sum(p.top for p in parts)
    picks = kind in ("Max", "Min")
    grain = min(p.grain for p in parts) if kind != "Mean" else 0.0
    return g.result(kind, parts, FLOAT, shape, min(p.lo for p in parts) if picks else -top, max(p.hi for p in parts) if picks else top,
                    all(p.exact for p in parts) and (picks or bool(grain)), grain)


@op(0.7, since=7)
def power(g):
    x = g.fit(g.any_float(), 0.25, 8)
    if g.chance():
        return g.result("Pow", [x, g.const(np.float32(g.choice((2, 0.5, 3, -1))))], FLOAT, x.shape, 0, 512, False)
    y = g.fresh(FLOAT, x.shape[-1:] if x.rank else (), -2, 2)
    return g.result("Pow", [x, y], FLOAT, shape_with(x, y), 0, 64, False)


@op(1, since=10)
def modulo(g):
    x = g.exact([FLOAT, np.dtype(np.int32), INT64])
    if x.dtype == FLOAT:
        if not x.grain:
            return False
        return g.result("Mod", [x, g.const(np.float32(1.5))], FLOAT, x.shape, -1.5, 1.5, True, min(x.grain, 0.5), fmod=1)
    return g.result("Mod", [x, g.const(np.array(g.choice((3, -4, 5)), x.dtype))], x.dtype, x.shape, -5, 5, True, 1.0, fmod=g.choice((None, 1)))


@op(2.5, since=7)
def integers(g):
    kinds = ["Add", "Sub", "Mul", "Div", "Abs", "Neg", "Max", "Min", "Sign"]
    if g.opset >= 18:
        kinds += ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"] * 2
    kind = g.choice(kinds)
    x = g.exact([np.dtype(np.int32), INT64] if g.opset < 14 or g.chance(0.7) else INTS)
    if kind == "Neg" and x.dtype.kind == "u" or kind in ("Max", "Min") and g.opset < 12 or kind == "Sign" and g.opset < 9:
        return False
    if kind in ("Abs", "Neg", "BitwiseNot", "Sign"):
        return g.result(kind, [x], x.dtype, x.shape, -x.top - 1, x.top + 1, True, 1.0)
    if kind == "Div":
        y = g.value(g.np.integers(1, 5, x.shape[-1:]).astype(x.dtype), 1.0)
    else:
        y = g.partner(x, lambda v: v.exact)
    if x.top * max(1, y.top) > 2 ** 28 or not y.exact:
        return False
    top = x.top * max(1, y.top) + x.top + y.top
    return g.result(kind, [x, y], x.dtype, shape_with(x, y), -top, top, True, 1.0)


@op(0.6, since=11)
def shift(g):
    x = g.exact([np.dtype(np.uint8), np.dtype(np.uint32), np.dtype(np.uint64)])
    y = g.value(g.np.integers(0, 8, x.shape).astype(x.dtype), 1.0)
    return g.result("BitShift", [x, y], x.dtype, x.shape, 0, 2 ** 20, True, 1.0, direction=g.choice(("LEFT", "RIGHT")))


@op(1.5, since=9)
def compare(g):
    kind = g.choice(("Equal", "Greater", "Less") + (("GreaterOrEqual", "LessOrEqual") if g.opset >= 12 else ()))
    types = [FLOAT, np.dtype(np.int32), INT64] if kind != "Equal" or g.opset >= 11 else [np.dtype(np.int32), INT64, BOOL]
    x = g.exact(types)
    y = g.partner(x, lambda v: v.exact)
    return y.exact and g.result(kind, [x, y], BOOL, shape_with(x, y), 0, 1, True, 1.0)


@op(1.5, since=7)
def logic(g):
    x = g.exact([BOOL])
    kind = g.choice(("And", "Or", "Xor", "Not"))
    if kind == "Not":
        return g.result(kind, [x], BOOL, x.shape, 0, 1, True, 1.0)
    y = g.partner(x)
    return g.result(kind, [x, y], BOOL, shape_with(x, y), 0, 1, True, 1.0)


@op(1.5, since=9)
def where(g):
    c = g.exact([BOOL])
    x = g.fresh(g.choice((FLOAT, FLOAT, INT64, np.dtype(np.int32), np.dtype(np.uint8))), c.shape) if g.chance(0.5) else \
        g.find(lambda v: v.shape == c.shape and v.dtype in (FLOAT, INT64) and not v.slack)
    if x is None:
        return False
    y = g.partner(x)
    shape = np.broadcast_shapes(c.shape, x.shape, y.shape)
    return g.result("Where", [c, x, y], x.dtype, shape, min(x.lo, y.lo), max(x.hi, y.hi), x.exact and y.exact, min(x.grain, y.grain))


@op(2, since=9)
def cast(g):
    x = g.exact([FLOAT, BOOL, np.dtype(np.int32), INT64, np.dtype(np.uint8), np.dtype(np.int8)])
    to = g.choice([FLOAT, np.dtype(np.int32), INT64, np.dtype(np.uint8), np.dtype(np.int8), BOOL])
    if to.kind == "u" and x.lo < 0 or to.itemsize == 1 and x.top > 127 or x.top > 2 ** 24:
        return False
    name, = g.node("Cast", [x], to=helper.np_dtype_to_tensor_dtype(to))
    ends = (0, 1) if to == BOOL else (math.floor(x.lo), math.ceil(x.hi))
    return g.add(name, to, x.shape, *ends, True, x.grain if to == FLOAT else 1.0)


@op(0.6, since=13)
def cast_double(g):
    x = g.fit(g.exact([FLOAT]), -1000, 1000)
    name, = g.node("Cast", [x], to=TensorProto.DOUBLE)
    back, = g.node("Cast", [name], to=TensorProto.FLOAT)
    return g.add(back, FLOAT, x.shape, x.lo, x.hi, True)


@op(0.7, since=11)
def clip_ints(g):
    x = g.exact([np.dtype(np.int32), INT64, np.dtype(np.uint8), np.dtype(np.int8)] if g.opset >= 12 else [FLOAT])
    bounds = [g.const(np.array(b, x.dtype)) for b in (1, 5)]
    return g.result("Clip", [x] + (bounds if g.chance(0.7) else ["", bounds[1]]), x.dtype, x.shape, min(x.lo, 1), 5, True, 1.0 if x.dtype != FLOAT else 0.0)


@op(0.5, since=10)
def special(g):
    """Infinities and NaN."""
    array = g.np.choice(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -2.0], np.float32), g.shape(g.between(1, 3)))
    name = g.name("x")
    g.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
    g.feeds[name] = array
    kind = g.choice(("IsNaN", "IsInf"))
    return g.result(kind, [name], BOOL, array.shape, 0, 1, True, 1.0)


# ---- along axes ----


def reduce_axes(g, x):
    axes = sorted(g.rng.sample(range(x.rank), g.between(1, x.rank)))
    keep = g.between(0, 1)
    shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
    return axes, keep, shape, prod([x.shape[a] for a in axes])


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
              "ReduceLogSum", "ReduceLogSumExp")


@op(4, since=7)
def reduction(g):
    kind = g.choice(REDUCTIONS)
    integer = kind in ("ReduceSum", "ReduceMax", "ReduceMin") and g.chance(0.3)
    x = g.exact([np.dtype(np.int32), INT64], lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4))) if integer else \
        g.any_float(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4)))
    if 0 in x.shape:
        return False
    if kind in ("ReduceLogSum", "ReduceProd", "ReduceL2"):
        x = g.fit(x, 0.5, 2) if kind != "ReduceL2" else g.fit(x, -64, 64)
    elif kind == "ReduceLogSumExp":
        x = g.fit(x, -4, 4)
    axes, keep, shape, n = reduce_axes(g, x)
    if kind == "ReduceProd" and n > 12 or x.top * n > 2 ** 26:
        return False
    inputs, attributes = [x], {"keepdims": keep}
    asked = [a - x.rank if g.opset >= 11 and g.chance(0.2) else a for a in axes]
    if len(axes) == x.rank and g.chance():
        pass
    elif g.opset >= 18 or (g.opset >= 13 and kind == "ReduceSum"):
        inputs.append(g.ints(*asked))
    else:
        attributes["axes"] = asked
    picks = kind in ("ReduceMax", "ReduceMin")
    top = {"ReduceProd": 2.0 ** min(n, 12), "ReduceSumSquare": x.top ** 2 * n, "ReduceLogSum": 10, "ReduceLogSumExp": 14}.get(kind, x.top * n)
    grain = {"ReduceSum": x.grain, "ReduceL1": x.grain, "ReduceMax": x.grain, "ReduceMin": x.grain, "ReduceSumSquare": x.grain ** 2}.get(kind, 0.0)
    ends = (x.lo, x.hi) if picks else (-top, top)
    if grain and top / grain > 2 ** 22:
        grain = 0.0
    return g.result(kind, inputs, x.dtype, shape, *ends, x.exact and (picks or bool(grain)), grain, **attributes)


@op(1.5, since=7)
def arg(g):
    x = g.exact([FLOAT, np.dtype(np.int32)] if g.opset < 12 else [FLOAT, np.dtype(np.int32), INT64, np.dtype(np.uint8), np.dtype(np.int8)],
                lambda v: v.rank > 0 and 0 not in v.shape, lambda: g.shape(g.between(1, 4)))
    a, axis = axis_of(g, x.rank, g.opset >= 11)
    keep = g.between(0, 1)
    shape = [1 if i == a else d for i, d in enumerate(x.shape) if keep or i != a]
    last = g.choice((None, 1)) if g.opset >= 12 else None
    return g.result(g.choice(("ArgMax", "ArgMin")), [x], INT64, shape, 0, x.shape[a], True, 1.0, axis=axis, keepdims=keep, select_last_index=last)


@op(1.2, since=7)
def top_k(g):
    x = g.exact([FLOAT] if g.opset < 11 else [FLOAT, INT64, np.dtype(np.int32)], lambda v: v.rank > 0 and 0 not in v.shape, lambda: g.shape(g.between(1, 4)))
    a, axis = axis_of(g, x.rank, g.opset >= 11)
    k = g.between(1, x.shape[a])
    shape = [k if i == a else d for i, d in enumerate(x.shape)]
    if g.opset < 10:
        names = g.node("TopK", [x], 2, axis=axis, k=k)
    else:
        names = g.node("TopK", [x, g.ints(k)], 2, axis=axis, largest=g.choice((0, 1)) if g.opset >= 11 else None)
    g.like(x, names[0], shape)
    return g.add(names[1], INT64, shape, 0, x.shape[a], True, 1.0)


@op(2)
def softmax(g):
    kind = g.choice(("Softmax", "Softmax", "LogSoftmax", "Hardmax"))
    x = g.exact([FLOAT], lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4))) if kind == "Hardmax" else \
        g.any_float(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4)))
    if 0 in x.shape:
        return False
    x = g.fit(x, -8, 8) if kind != "Hardmax" else x
    a, axis = axis_of(g, x.rank, g.opset >= 11)
    return g.result(kind, [x], FLOAT, x.shape, -24 if kind == "LogSoftmax" else 0, 1, kind == "Hardmax", 1.0 if kind == "Hardmax" else 0.0, axis=axis)


@op(1, since=11)
def cum_sum(g):
    x = g.find(lambda v: v.rank > 0 and v.dtype in (FLOAT, INT64, np.dtype(np.int32)) and not v.slack) or g.fresh(FLOAT, g.shape(g.between(1, 4)))
    a, axis = axis_of(g, x.rank)
    top = x.top * x.shape[a]
    if top > 2 ** 26:
        return False
    grain = x.grain if x.grain and top / x.grain < 2 ** 22 else 0.0
    return g.result("CumSum", [x, g.const(np.int64(axis))], x.dtype, x.shape, -top, top, x.exact and bool(grain), grain,
                    exclusive=g.between(0, 1), reverse=g.between(0, 1))


@op(0.7, since=7)
def lp_normalization(g):
    x = g.any_float(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4)))
    if 0 in x.shape:
        return False
    x = g.fit(x, 0.25, 16)
    return g.result("LpNormalization", [x], FLOAT, x.shape, 0, 1, False, axis=axis_of(g, x.rank, g.opset >= 22)[1], p=g.between(1, 2))


@op(0.5, since=11)
def unique(g):
    x = g.exact([FLOAT, INT64], lambda v: v.rank > 0 and v.size > 0, lambda: g.shape(g.between(1, 3)))
    axis = g.between(0, x.rank - 1) if g.chance() else None
    names = g.node("Unique", [x], 4, axis=axis, sorted=1)
    g.add(names[0], x.dtype, None, 0, 0, True)
    for n in names[1:]:
        v = g.add(n, INT64, None, 0, 0, True)
    return v


@op(0.5, since=11)
def det(g):
    n = g.between(1, 4)
    x = g.fresh(FLOAT, g.shape(g.between(0, 2), 1, 3) + (n, n))
    return g.result("Det", [x], FLOAT, x.shape[:-2], -1e4, 1e4, False)


@op(1, since=12)
def einsum(g):
    a, b, c = (g.between(1, 5) for _ in range(3))
    kind = g.between(0, 5)
    if kind < 2:
        x = g.any_float(lambda v: v.rank == 2, lambda: (a, b))
        y = g.fresh(FLOAT, (x.shape[1], c))
        ends = 16 * x.shape[1] * x.top
        return g.result("Einsum", [x, y], FLOAT, (c, x.shape[0]) if kind else (x.shape[0], c), -ends, ends, False, equation="ij,jk->ki" if kind else "ij,jk->ik")
    x = g.any_float(lambda v: v.rank == 3, lambda: (a, b, c))
    if kind == 2:
        return g.result("Einsum", [x], FLOAT, (x.shape[2], x.shape[0]), -x.top * x.shape[1], x.top * x.shape[1], False, equation="abc->ca")
    y = g.fresh(FLOAT, (x.shape[0], x.shape[2], 3))
    top = x.top * 4 * x.shape[2]
    if kind == 3:
        return g.result("Einsum", [x, y], FLOAT, (x.shape[0], x.shape[1], 3), -top, top, False, equation="bij,bjk->bik")
    if kind == 4:
        return g.result("Einsum", [x, y], FLOAT, (x.shape[1], 3), -top * x.shape[0], top * x.shape[0], False, equation="bij,bjk->ik")
    return g.result("Einsum", [x, x], FLOAT, x.shape[:2], -x.top ** 2 * x.shape[2], x.top ** 2 * x.shape[2], False, equation="...j,...j->...")


@op(0.3, since=17)
def signal(g):
    kind = g.between(0, 2)
    if kind == 0:
        n = g.between(2, 20)
        return g.result(g.choice(("HannWindow", "HammingWindow", "BlackmanWindow")), [g.const(np.int64(n))], FLOAT, (n,), 0, 1, False, periodic=g.between(0, 1))
    x = g.fresh(FLOAT, (g.between(1, 2), g.between(4, 16), 1))
    if kind == 1 and g.opset < 20:
        return g.result("DFT", [x], FLOAT, x.shape[:2] + (2,), -64, 64, False, axis=1)
    if kind == 1:
        return g.result("DFT", [x, "", g.const(np.int64(1))], FLOAT, x.shape[:2] + (2,), -64, 64, False)
    frame = 4
    return g.result("STFT", [x, g.const(np.int64(2)), g.fresh(FLOAT, (frame,)), g.const(np.int64(frame))], FLOAT,
                    (x.shape[0], (x.shape[1] - frame) // 2 + 1, frame // 2 + 1, 2), -64, 64, False)
