# SPDX-License-Identifier: MIT
"""Operators that move elements: views, joins, parts, repetitions, indices."""
from graph import BOOL, FLOAT, INT64, MOST_ELEMENTS, MOST_RANK, axis_of, np, numpy_helper, op, prod


def factors(g, n, rank):
    """A random shape of n elements."""
    dims = [1] * rank
    for p in (2, 3, 5, 7, 11, 13):
        while n % p == 0 and n:
            dims[g.between(0, rank - 1)] *= p
            n //= p
    dims[g.between(0, rank - 1)] *= n
    return tuple(dims)


@op(3)
def reshape(g):
    x = g.anything(lambda v: v.size > 0)
    shape = factors(g, x.size, g.between(1, 5))
    asked = list(shape)
    kind = g.between(0, 3)
    if kind == 0:
        asked[g.between(0, len(asked) - 1)] = -1
    elif kind == 1:
        for i in range(min(len(asked), x.rank)):
            if asked[i] == x.shape[i]:
                asked[i] = 0
    return g.moved("Reshape", x, shape, [g.ints(*asked)])


@op(3)
def transpose(g):
    x = g.anything(lambda v: v.rank > 1, lambda: g.shape(g.between(2, 5)))
    perm = list(range(x.rank))
    if g.chance(0.15):
        return g.moved("Transpose", x, x.shape[::-1])
    g.rng.shuffle(perm)
    return g.moved("Transpose", x, [x.shape[p] for p in perm], perm=perm)


@op(1.5, since=11)
def shuffle(g):
    x = g.anything(lambda v: v.rank == 4 and v.shape[1] > 1, lambda: (1, 2 * g.between(1, 4), g.between(1, 6), g.between(1, 6)))
    n, c, h, w = x.shape
    groups = g.choice([d for d in range(1, c + 1) if c % d == 0])
    y = g.moved("Reshape", x, (n, groups, c // groups, h, w), [g.ints(n, groups, c // groups, h, w)])
    y = g.moved("Transpose", y, (n, c // groups, groups, h, w), perm=[0, 2, 1, 3, 4])
    return g.moved("Reshape", y, x.shape, [g.ints(*x.shape)])


@op(3)
def concat(g):
    x = g.anything(lambda v: v.rank > 0 and v.size < MOST_ELEMENTS // 2, lambda: g.shape(g.between(1, 4)))
    a, axis = axis_of(g, x.rank, g.opset >= 11)
    parts = [x]
    for _ in range(g.between(1, 3)):
        other = g.find(lambda v: v.dtype == x.dtype and v.rank == x.rank and v.quant == x.quant and
                       all(p == q for i, (p, q) in enumerate(zip(v.shape, x.shape)) if i != a))
        if other is None:
            shape = list(x.shape)
            shape[a] = g.between(1, 5)
            if x.quant:
                other = x
            else:
                other = g.fresh(x.dtype, tuple(shape))
        parts.insert(g.between(0, len(parts)), other)
    shape = list(x.shape)
    shape[a] = sum(p.shape[a] for p in parts)
    if prod(shape) > MOST_ELEMENTS:
        return False
    name, = g.node("Concat", parts, axis=axis)
    grains = [p.grain for p in parts]
    grain = min(grains) if all(grains) and all(gr % min(grains) == 0 for gr in grains) else 0.0
    return g.add(name, x.dtype, shape, min(p.lo for p in parts), max(p.hi for p in parts), all(p.exact for p in parts), grain,
                 x.quant, max(p.slack for p in parts))


@op(3)
def slice_(g):
    x = g.anything(lambda v: v.rank > 0 and v.size > 0, lambda: g.shape(g.between(1, 4)))
    axes = g.rng.sample(range(x.rank), g.between(1, x.rank))
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for a in axes:
        d = x.shape[a]
        step = 1 if g.opset < 10 else g.choice((1, 1, 1, 2, 3, -1, -2))
        first, last = sorted((g.between(0, d - 1), g.between(0, d - 1)))
        start, end = (first, last + 1) if step > 0 else (last, first - 1)
        if step < 0 and end < 0:
            end = -d - g.between(1, 3)
        elif g.chance(0.3):
            start, end = start - d, (end - d if end < d else end + g.choice((0, 5, 2 ** 40)))
        shape[a] = len(range(*slice(start, end if end > -d - 1 else None, step).indices(d)))
        starts.append(start)
        ends.append(end)
        steps.append(step)
    if 0 in shape:
        return False
    if g.opset < 10:
        return g.moved("Slice", x, shape, axes=axes, starts=starts, ends=[min(e, 2 ** 31 - 1) for e in ends])
    extra = [g.ints(*starts), g.ints(*ends), g.ints(*[a - x.rank if g.chance(0.2) else a for a in axes])]
    if any(s != 1 for s in steps) or g.chance(0.3):
        extra.append(g.ints(*steps))
    return g.moved("Slice", x, shape, extra)


@op(2)
def split(g):
    x = g.anything(lambda v: v.rank > 0 and max(v.shape) > 1, lambda: g.shape(g.between(1, 4), 2))
    a = max(range(x.rank), key=lambda i: (x.shape[i] > 1, g.rng.random()))
    d = x.shape[a]
    n = min(d, g.between(2, 3))
    cuts = sorted(g.rng.sample(range(1, d), n - 1))
    sizes = [q - p for p, q in zip([0] + cuts, cuts + [d])]
    axis = a - x.rank if g.opset >= 11 and g.chance(0.2) else a
    if g.opset >= 18 and g.chance(0.4):
        size = -(-d // n)
        sizes = [size] * (d // size) + ([d % size] if d % size else [])
        names = g.node("Split", [x], len(sizes), axis=axis, num_outputs=len(sizes))
        if len(sizes) != n and -(-d // len(sizes)) != size:
            return False
    elif g.opset >= 13:
        names = g.node("Split", [x, g.ints(*sizes)], n, axis=axis)
    else:
        names = g.node("Split", [x], n, axis=axis, split=sizes)
    for name, size in zip(names, sizes):
        g.like(x, name, [size if i == a else q for i, q in enumerate(x.shape)])
    return True


@op(2)
def pad(g):
    x = g.anything(lambda v: v.rank > 0 and v.size > 0 and v.dtype != BOOL, lambda: g.shape(g.between(1, 4), 2))
    if (g.opset < 11 and x.dtype != FLOAT) or x.dtype.itemsize == 2:
        return False
    mode = g.choice(("constant", "constant", "edge", "reflect") + (("wrap",) if g.opset >= 19 else ()))
    if mode != "constant" and x.rank < 2:
        mode = "constant"
    before, after = [0] * x.rank, [0] * x.rank
    for a in g.rng.sample(range(x.rank), g.between(1, min(2, x.rank))):
        most = x.shape[a] - 1 if mode in ("reflect", "wrap") else 3
        before[a], after[a] = g.between(0, min(3, most)), g.between(0, min(3, most))
        if g.chance(0.1) and x.shape[a] > 2 and mode == "constant":
            before[a] = -1
    shape = [b + d + e for b, d, e in zip(before, x.shape, after)]
    if prod(shape) > MOST_ELEMENTS:
        return False
    lo, hi, grain = x.lo, x.hi, x.grain
    fill = None
    if mode == "constant":
        fill = g.between(0, 3) if x.dtype != FLOAT else float(g.between(-2, 2))
        if x.quant:
            fill = 0.0
        if g.opset >= 11 and fill == 0 and g.chance(0.7):
            fill = None
        lo, hi = min(lo, fill or 0), max(hi, fill or 0)
        grain = grain if grain and (fill or 0) % grain == 0 else 0.0
    if g.opset < 11:
        name, = g.node("Pad", [x], mode=mode, pads=before + after, value=fill)
    else:
        extra = [g.ints(*before, *after)]
        if fill is not None:
            extra.append(g.const(np.array(fill, x.dtype)))
        if g.opset >= 18 and g.chance(0.3):
            axes = g.rng.sample(range(x.rank), x.rank)
            extra[0] = g.ints(*[before[a] for a in axes], *[after[a] for a in axes])
            extra += [""] * (2 - len(extra)) + [g.ints(*axes)]
        name, = g.node("Pad", [x, *extra], mode=mode)
    return g.add(name, x.dtype, shape, lo, hi, x.exact, grain, x.quant, x.slack)


@op(1.5)
def squeeze(g):
    x = g.anything(lambda v: 1 in v.shape, lambda: g.shape(g.between(1, 3)) + (1,))
    axes = [i for i, d in enumerate(x.shape) if d == 1]
    if g.chance(0.3):
        return g.moved("Squeeze", x, [d for d in x.shape if d != 1])
    axes = g.rng.sample(axes, g.between(1, len(axes)))
    shape = [d for i, d in enumerate(x.shape) if i not in axes]
    if g.opset < 13:
        return g.moved("Squeeze", x, shape, axes=axes)
    return g.moved("Squeeze", x, shape, [g.ints(*[a - x.rank if g.chance(0.2) else a for a in axes])])


@op(1.5)
def unsqueeze(g):
    x = g.anything(lambda v: v.rank < 5)
    n = g.between(1, 2)
    rank = x.rank + n
    axes = sorted(g.rng.sample(range(rank), n))
    rest = iter(x.shape)
    shape = [1 if i in axes else next(rest) for i in range(rank)]
    if g.opset < 13:
        return g.moved("Unsqueeze", x, shape, axes=axes)
    return g.moved("Unsqueeze", x, shape, [g.ints(*[a - rank if g.chance(0.2) else a for a in axes])])


@op(1)
def flatten(g):
    x = g.anything(lambda v: v.rank > 0 and (g.opset >= 9 or v.dtype == FLOAT), lambda: g.shape(g.between(1, 5)))
    a = g.between(0, x.rank)
    return g.moved("Flatten", x, (prod(x.shape[:a]), prod(x.shape[a:])), axis=a)


@op(1)
def identity(g):
    x = g.anything()
    return g.moved("Identity", x, x.shape)


@op(1.5)
def depth_to_space(g):
    b = g.between(1, 3)
    x = g.any_float(lambda v: v.rank == 4 and v.shape[1] % (b * b) == 0, lambda: (1, b * b * g.between(1, 3), g.between(1, 5), g.between(1, 5)),
                    slack=True)
    n, c, h, w = x.shape
    mode = g.choice(("DCR", "CRD", None)) if g.opset >= 11 else None
    return g.moved("DepthToSpace", x, (n, c // (b * b), h * b, w * b), blocksize=b, mode=mode)


@op(1)
def space_to_depth(g):
    b = g.between(1, 3)
    x = g.any_float(lambda v: v.rank == 4 and v.shape[2] % b == 0 and v.shape[3] % b == 0,
                    lambda: (g.between(1, 2), g.between(1, 4), b * g.between(1, 3), b * g.between(1, 3)), slack=True)
    n, c, h, w = x.shape
    return g.moved("SpaceToDepth", x, (n, c * b * b, h // b, w // b), blocksize=b)


@op(1.5)
def expand(g):
    x = g.anything(lambda v: v.rank < MOST_RANK, lambda: tuple(1 if g.chance() else d for d in g.shape(g.between(1, 4))))
    shape = tuple(g.between(1, 4) for _ in range(g.between(0, 1))) + tuple(g.between(1, 5) if d == 1 else d for d in x.shape)
    if prod(shape) > MOST_ELEMENTS or x.dtype.itemsize == 2:
        return False
    asked = [1 if d > 1 and x.shape[::-1][len(shape) - 1 - i:][:1] == (d,) and g.chance(0.3) else d for i, d in enumerate(shape)]
    return g.moved("Expand", x, shape, [g.ints(*asked)])


@op(1)
def tile(g):
    x = g.anything(lambda v: 0 < v.rank, lambda: g.shape(g.between(1, 4), most=4))
    repeats = [g.choice((1, 1, 2, 3)) for _ in x.shape]
    shape = [d * r for d, r in zip(x.shape, repeats)]
    if prod(shape) > MOST_ELEMENTS or x.dtype.itemsize == 2:
        return False
    return g.moved("Tile", x, shape, [g.ints(*repeats)])


def indices(g, shape, d):
    """Indices below d; negative ones from opset 11 on."""
    return g.np.integers(-d if g.opset >= 11 and g.chance(0.3) else 0, d, shape).astype(np.int64 if g.chance(0.7) else np.int32)


@op(2)
def gather(g):
    x = g.anything(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4)))
    a, axis = axis_of(g, x.rank)
    shape = g.choice(((), (g.between(1, 4),), (2, g.between(1, 3))))
    i = indices(g, shape, x.shape[a])
    full = x.shape[:a] + tuple(shape) + x.shape[a + 1:]
    if prod(full) > MOST_ELEMENTS or len(full) > MOST_RANK:
        return False
    return g.moved("Gather", x, full, [g.value(i, 1.0, g.chance(0.3))], axis=axis)


@op(1, since=11)
def gather_elements(g):
    x = g.anything(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4)))
    a, axis = axis_of(g, x.rank)
    shape = tuple(g.between(1, d) for d in x.shape)
    return g.moved("GatherElements", x, shape, [g.value(indices(g, shape, x.shape[a]), 1.0, g.chance(0.3))], axis=axis)


@op(1, since=11)
def gather_nd(g):
    x = g.anything(lambda v: v.rank > 0, lambda: g.shape(g.between(1, 4)))
    batch = g.between(0, x.rank - 1) if g.opset >= 12 and g.chance(0.3) else 0
    k = g.between(1, x.rank - batch)
    outer = x.shape[:batch] + tuple(g.between(1, 3) for _ in range(g.between(0 if batch else 1, 2)))
    i = np.stack([g.np.integers(0, x.shape[batch + j], outer) for j in range(k)], -1).astype(np.int64)
    full = outer + x.shape[batch + k:]
    if prod(full) > MOST_ELEMENTS or len(full) > MOST_RANK:
        return False
    return g.moved("GatherND", x, full, [g.value(i, 1.0, g.chance(0.3))], batch_dims=batch if batch else None)


@op(0.8, since=11)
def scatter_elements(g):
    x = g.anything(lambda v: v.rank > 0 and v.size > 0 and not v.quant and not v.slack, lambda: g.shape(g.between(1, 4)))
    a, axis = axis_of(g, x.rank)
    shape = tuple(g.between(1, d) for d in x.shape)
    # Every place is written at most once: the order of writes is not defined.
    i = np.argsort(g.np.random(shape[:a] + (x.shape[a],) + shape[a + 1:]), axis=a).take(range(shape[a]), axis=a).astype(np.int64)
    u = g.fresh(x.dtype, shape)
    reduction = g.choice((None, None, "add", "mul") + (("min", "max") if g.opset >= 18 else ())) if g.opset >= 16 and x.dtype != BOOL else None
    if reduction and x.dtype != FLOAT:
        reduction = None
    return writes(g, "ScatterElements", x, i, u, reduction, axis=axis)


@op(0.8, since=11)
def scatter_nd(g):
    x = g.anything(lambda v: v.rank > 0 and v.size > 0 and not v.quant and not v.slack, lambda: g.shape(g.between(1, 4)))
    k = g.between(1, x.rank)
    places = prod(x.shape[:k])
    n = g.between(1, min(4, places))
    i = np.stack(np.unravel_index(g.np.permutation(places)[:n], x.shape[:k]), -1).astype(np.int64)
    u = g.fresh(x.dtype, (n,) + x.shape[k:])
    reduction = g.choice((None, "add", "mul")) if g.opset >= 16 and x.dtype == FLOAT else None
    return writes(g, "ScatterND", x, i, u, reduction)


def writes(g, kind, x, i, u, reduction, **attributes):
    name, = g.node(kind, [x, g.const(i), u], reduction=reduction, **attributes)
    lo, hi, exact = min(x.lo, u.lo), max(x.hi, u.hi), x.exact and u.exact
    grain = min(x.grain, u.grain) if x.grain and u.grain else 0.0
    if reduction in ("add", "mul"):
        top = x.top + u.top if reduction == "add" else max(1, x.top) * max(1, u.top)
        lo, hi, grain = -top, top, grain * grain if reduction == "mul" else grain
    return g.add(name, x.dtype, x.shape, lo, hi, exact, grain)


@op(0.8, since=14)
def trilu(g):
    x = g.anything(lambda v: v.rank > 1 and not v.quant, lambda: g.shape(g.between(2, 4)))
    if x.dtype.itemsize < 4 and x.dtype != BOOL or x.dtype.kind == "u":
        return False
    extra = [g.const(np.int64(g.between(-2, 3)))] if g.chance(0.6) else []
    name, = g.node("Trilu", [x, *extra], upper=g.between(0, 1))
    return g.add(name, x.dtype, x.shape, min(0, x.lo), max(0, x.hi), x.exact, x.grain, None, x.slack)


@op(0.7, since=10)
def reverse_sequence(g):
    x = g.anything(lambda v: v.rank > 1, lambda: g.shape(g.between(2, 4)))
    batch = g.between(0, 1)
    lengths = g.np.integers(1, x.shape[1 - batch], x.shape[batch], endpoint=True).astype(np.int64)
    return g.moved("ReverseSequence", x, x.shape, [g.value(lengths, 1.0, g.chance(0.3))], batch_axis=batch, time_axis=1 - batch)


@op(0.6, since=18)
def center_crop_pad(g):
    x = g.any_float(lambda v: v.rank > 0 and not v.quant, lambda: g.shape(g.between(1, 4)))
    axes = sorted(g.rng.sample(range(x.rank), g.between(1, x.rank)))
    to = [g.between(1, 8) for _ in axes]
    shape = list(x.shape)
    for a, d in zip(axes, to):
        shape[a] = d
    if prod(shape) > MOST_ELEMENTS:
        return False
    name, = g.node("CenterCropPad", [x, g.ints(*to)], axes=axes)
    return g.add(name, x.dtype, shape, min(0, x.lo), max(0, x.hi), x.exact, x.grain)


@op(0.6)
def dropout(g):
    x = g.any_float(slack=True)
    return g.moved("Dropout", x, x.shape)


@op(0.6)
def shape_of(g):
    x = g.anything()
    if g.opset >= 15 and x.rank and g.chance():
        first = g.between(0, x.rank - 1)
        last = g.between(first + 1, x.rank)
        return g.result("Shape", [x], INT64, (last - first,), 0, MOST_ELEMENTS, True, 1.0, start=first, end=last - x.rank if last < x.rank else None)
    if g.chance(0.3):
        return g.result("Size", [x], INT64, (), x.size, x.size, True, 1.0)
    return g.result("Shape", [x], INT64, (x.rank,), 0, MOST_ELEMENTS, True, 1.0)


@op(0.7)
def through_shape(g):
    """A Reshape by a shape that nodes compute, as exporters write it."""
    x = g.anything(lambda v: 1 < v.rank and v.size > 0, lambda: g.shape(g.between(2, 4)))
    shape, = g.node("Shape", [x])
    first, = g.node("Gather", [shape, g.const(np.int64(0))])
    if g.opset < 13:
        first, = g.node("Unsqueeze", [first], axes=[0])
    else:
        first, = g.node("Unsqueeze", [first, g.ints(0)])
    asked, = g.node("Concat", [first, g.ints(-1)], axis=0)
    return g.moved("Reshape", x, (x.shape[0], prod(x.shape[1:])), [asked])


@op(0.5, since=9)
def constant_of_shape(g):
    shape = g.shape(g.between(0, 3), 1, 5)
    fill = g.choice((np.float32(1.5), np.int64(3), np.int32(-2), np.bool_(True)))
    v = float(fill)
    return g.result("ConstantOfShape", [g.ints(*shape)], fill.dtype, shape, v, v, True, 0.5, value=numpy_helper.from_array(np.array([fill])))


@op(0.5, since=9)
def eye_like(g):
    x = g.find(lambda v: v.rank == 2 and v.dtype == FLOAT) or g.fresh(FLOAT, g.shape(2))
    return g.result("EyeLike", [x], FLOAT, x.shape, 0, 1, True, 1.0, k=g.between(-2, 2))


@op(0.5, since=11)
def range_(g):
    kind = g.choice((np.float32, np.int64, np.int32))
    start, step, n = g.between(-4, 4), g.choice((1, 2, 3, -1, -2)), g.between(1, 9)
    limits = [kind(start), kind(start + step * n - (1 if step > 0 and abs(step) > 1 else 0)), kind(step)]
    return g.result("Range", [g.const(v) for v in limits], kind, (n,), min(start, start + step * n), max(start, start + step * n), True, 1.0)


@op(0.6, since=9)
def one_hot(g):
    depth = g.between(1, 6)
    i = g.value(g.np.integers(-depth if g.opset >= 11 else 0, depth, g.shape(g.between(1, 3), 1, 4)).astype(np.int64), 1.0)
    a = g.between(0, i.rank)
    shape = i.shape[:a] + (depth,) + i.shape[a:]
    values = np.sort(g.np.integers(-3, 4, 2)).astype(np.float32)
    return g.result("OneHot", [i, g.const(np.int64(depth)), g.const(values)], FLOAT, shape, values.min(), values.max(), True, 1.0,
                    axis=a if g.chance() else a - i.rank - 1)


@op(0.6, since=9)
def non_zero(g):
    x = g.exact([FLOAT, BOOL, np.dtype(np.int64), np.dtype(np.int32)], lambda v: v.rank > 0, lambda: g.shape(g.between(1, 3)))
    return g.result("NonZero", [x], INT64, None, 0, 0, True, 1.0)


@op(0.6, since=9)
def compress(g):
    x = g.anything(lambda v: v.rank > 0 and v.size > 0 and not v.slack and v.exact, lambda: g.shape(g.between(1, 3)))
    axis = g.between(0, x.rank - 1) if g.chance(0.7) else None
    n = x.size if axis is None else x.shape[axis]
    c = g.value(g.np.integers(0, 2, g.between(1, n)).astype(np.bool_), 1.0)
    name, = g.node("Compress", [x, c], axis=axis)
    return g.add(name, x.dtype, None, 0, 0, x.exact)
