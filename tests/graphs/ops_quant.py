# SPDX-License-Identifier: MIT
"""Quantised operators: between DequantizeLinear and QuantizeLinear, and the QLinear ones themselves.

Their results are bytes with a scale and a zero point (Value.quant). All activations of a graph have
one type. A result with slack is one of the exceptions of docs/numerics.md 6.
"""
from graph import FLOAT, MOST_ELEMENTS, Unfit, np, op, prod
from ops_net import ceil_shape, sees_padding_alone, window

MICROSOFT = "com.microsoft"


def byte(g):
    """The type of activations of the graph."""
    if not hasattr(g, "byte"):
        g.byte = np.dtype(np.int8) if g.chance(0.4) else np.dtype(np.uint8)
    return g.byte


def limits(dtype):
    info = np.iinfo(dtype)
    return info.min, info.max


def parameters(g, scale=None, low=False):
    """A scale and a zero point, which is the least byte if `low`."""
    lo, hi = limits(byte(g))
    zero = lo if low or g.chance(0.2) else g.choice((0, lo, g.between(lo, hi), g.between(lo, hi)))
    if scale is None:
        scale = g.choice((2.0 ** g.between(-8, 0), g.rng.uniform(0.005, 0.2)))
    return np.float32(scale), zero


def scalar(g, x, dtype=None):
    return g.const(np.array(x, dtype or byte(g)))


def store(g, name, shape, quant, slack=0):
    lo, hi = limits(byte(g))
    return g.add(name, byte(g), shape, lo, hi, True, 1.0, quant, slack)


def dequantise(g, x):
    scale, zero = x.quant
    name, = g.node("DequantizeLinear", [x, scalar(g, scale, np.float32), scalar(g, zero)])
    return name


def quantise(g, name, shape, quant, slack=0):
    y, = g.node("QuantizeLinear", [name, scalar(g, quant[0], np.float32), scalar(g, quant[1])])
    return store(g, y, shape, quant, slack)


def quantised(g, accept=lambda v: True, shape=None):
    """A quantised value without slack: of the pool, a new input of bytes, or a new float input and its bytes."""
    v = g.find(lambda v: v.dtype == byte(g) and v.quant and not v.slack and accept(v))
    if v is not None:
        return v
    shape = shape() if shape else (1, g.between(1, 8), g.between(1, 9), g.between(1, 9))
    quant = parameters(g)
    if g.chance(0.6):
        x = g.fresh(FLOAT, shape, dynamic=True)
        v = quantise(g, x.name, shape, quant)
        x.used = True
    else:
        x = g.value(g.np.integers(*limits(byte(g)), shape, endpoint=True).astype(byte(g)), 1.0, True)
        x.quant = quant
        v = x
    if not accept(v):
        raise Unfit
    return v


def picture(g, most_channels=8):
    shape = lambda: (1, g.between(1, most_channels), g.between(1, 9), g.between(1, 9))
    return quantised(g, lambda v: v.rank == 4 and 0 not in v.shape, shape)


def spread(g, quant_in, scale_w, taps):
    """A scale for sums of `taps` products."""
    return np.float32(quant_in[0] * scale_w * 74 * 74 * np.sqrt(taps) * 4 / 255 * g.rng.uniform(0.4, 1.6))


def prune(g, data, axis, zero):
    """
    Sets weights to zero: any of them, or all but some of each block of 8 or 16 inputs of an output, or whole
    outputs or inputs. The share varies, so that layers on both sides of the sparse mode's limit occur.
    """
    rows = np.moveaxis(data, axis, 0)
    rows = rows.reshape(rows.shape[:2] + (-1,)) if data.ndim > 2 else rows[:, :, None]
    kept = np.ones(rows.shape, bool)
    kind = g.choice(("any", "block", "block", "block", "output", "input"))
    if kind == "any":
        kept = g.np.random(rows.shape) < g.choice((0.02, 0.1, 0.25, 0.5))
    if kind == "block":
        block, most = g.choice((8, 16, 16, 32)), g.choice((1, 2, 4, 4, 5, 8))
        for c in range(0, rows.shape[1], block):
            order = g.np.random(rows[:, c:c + block].shape).argsort(axis=1).argsort(axis=1)
            kept[:, c:c + block] = order < most
    if kind == "output":
        kept[g.np.random(rows.shape[0]) < 0.5] = False
    if kind == "input":
        kept[:, g.np.random(rows.shape[1]) < 0.7] = False
    rows = np.where(kept, rows, zero)
    shape = [data.shape[axis]] + [n for d, n in enumerate(data.shape) if d != axis]
    data[...] = np.moveaxis(rows.reshape(shape), 0, axis)


class Weights:
    """Constant weights: bytes, scales, zero point."""

    def __init__(self, g, shape, axis):
        self.dtype = np.dtype(np.uint8) if byte(g) == np.uint8 and g.chance(0.2) else np.dtype(np.int8)
        self.per_channel = self.dtype == np.int8 and g.opset >= 13 and g.chance(0.5)
        self.zero = g.between(0, 255) if self.dtype == np.uint8 else 0
        lo, hi = limits(self.dtype)
        self.data = g.np.integers(lo, hi, shape, endpoint=True).astype(self.dtype)
        if g.chance(0.5):
            prune(g, self.data, axis, self.zero)
        n = shape[axis] if self.per_channel else 1
        self.base = g.choice((2.0 ** g.between(-9, -4), g.rng.uniform(0.002, 0.05)))
        self.scales = (self.base * (g.np.uniform(0.5, 1.5, n) if self.per_channel else np.ones(1))).astype(np.float32)
        self.axis = axis

    def parts(self, g):
        """Names of the constants: bytes, scale, zero point."""
        n = len(self.scales)
        if self.per_channel:
            return g.const(self.data), g.const(self.scales), g.const(np.full(n, self.zero, self.dtype))
        return g.const(self.data), g.const(self.scales[0]), g.const(np.array(self.zero, self.dtype))

    def dequantised(self, g):
        name, = g.node("DequantizeLinear", list(self.parts(g)), axis=self.axis if self.per_channel else None)
        return name

    def bias(self, g, quant, n):
        """int32 bytes, and their dequantised form."""
        data = g.np.integers(-20000, 20000, n).astype(np.int32)
        scale = (quant[0] * self.scales).astype(np.float32)
        if g.opset < 13:
            scale = scale[0]
        name = g.const(data)
        if np.ndim(scale) and len(scale) == 1:
            scale = scale[0]
        floats, = g.node("DequantizeLinear", [name, g.const(scale)], axis=0 if np.ndim(scale) else None)
        return name, floats


def activation(g, name, quant):
    """(name, slack) of what follows a product: nothing, or Relu."""
    if not g.chance(0.3):
        return name, 0
    name, = g.node("Relu", [name])
    return name, 0 if quant[1] == limits(byte(g))[0] else 1


@op(6, since=10)
def q_conv(g):
    x = picture(g, g.choice((8, 8, 36)))
    n, c = x.shape[:2]
    group = g.choice([1, 1, c] + [d for d in range(1, c + 1) if c % d == 0])
    out = group * g.between(1, 3) if group > 1 else g.between(1, 20)
    kernel, strides, dilations, pads, shape = window(g, x.shape[2:], g.choice((1, 3, 3, 5)))
    if kernel is None or prod(shape) * n * out > MOST_ELEMENTS:
        return False
    taps = c // group * prod(kernel)
    w = Weights(g, [out, c // group] + kernel, 0)
    quant = parameters(g, spread(g, x.quant, w.base, taps), g.chance(0.3))
    attributes = {"strides": strides, "dilations": dilations, "group": group, "kernel_shape": kernel, "pads": pads}
    biased = g.chance(0.7)
    if g.chance(0.3):
        inputs = [x, scalar(g, x.quant[0], np.float32), scalar(g, x.quant[1]), *w.parts(g), scalar(g, quant[0], np.float32), scalar(g, quant[1])]
        if biased:
            inputs.append(g.const(g.np.integers(-20000, 20000, out).astype(np.int32)))
        name, = g.node("QLinearConv", inputs, **attributes)
        return store(g, name, [n, out] + shape, quant)
    inputs = [dequantise(g, x), w.dequantised(g)]
    if biased:
        inputs.append(w.bias(g, x.quant, out)[1])
    name, = g.node("Conv", inputs, **attributes)
    name, slack = activation(g, name, quant)
    return quantise(g, name, [n, out] + shape, quant, slack)


@op(2, since=10)
def q_conv_transpose(g):
    """Of which onnxruntime computes floats. Some results have whole words of channels, which the NPU moves as images."""
    x = picture(g, g.choice((8, 8, 36)))
    n, c = x.shape[:2]
    group = g.choice([1, 1, 1, c] + [d for d in range(1, c + 1) if c % d == 0])
    out = g.between(1, 2) if group > 1 else g.choice((g.between(1, 6), 16, 32))
    kernel, square = [g.between(1, 4), g.between(1, 4)], g.between(1, 3)
    strides = [square, square] if g.chance(0.8) else [g.between(1, 3), g.between(1, 3)]
    dilations = [1, 1] if g.chance(0.9) else [g.between(1, 2), g.between(1, 2)]
    extra = [g.between(0, s - 1) if g.chance() else 0 for s in strides]
    pads = [g.between(0, k - 1) if g.chance() else 0 for k in kernel * 2]
    shape = [(d - 1) * s + o + (k - 1) * e + 1 - pads[i] - pads[i + 2]
             for i, (d, s, o, k, e) in enumerate(zip(x.shape[2:], strides, extra, kernel, dilations))]
    if min(shape) < 1 or prod(shape) * n * out * group > MOST_ELEMENTS:
        return False
    w = Weights(g, [c, out] + kernel, 1)
    if w.per_channel and group > 1:
        return False
    quant = parameters(g, spread(g, x.quant, w.base, c // group * prod(kernel) / prod(strides)), g.chance(0.3))
    inputs = [dequantise(g, x), w.dequantised(g)]
    if g.chance(0.7):
        inputs.append(w.bias(g, x.quant, out * group)[1])
    name, = g.node("ConvTranspose", inputs, strides=strides, dilations=dilations, group=group, pads=pads, output_padding=extra,
                   kernel_shape=kernel)
    name, _ = activation(g, name, quant)
    return quantise(g, name, [n, out * group] + shape, quant, 1)


@op(1, since=11)
def q_blocks(g):
    """DepthToSpace of whole and broken words of channels."""
    size = g.between(2, 3)
    c = size * size * g.choice((1, 2, 16, 32))
    x = quantised(g, lambda v: v.rank == 4 and v.shape[1] % (size * size) == 0 and 0 not in v.shape,
                  lambda: (g.between(1, 2), c, g.between(1, 4), g.between(1, 4)))
    n, c, h, w = x.shape
    name, = g.node("DepthToSpace", [dequantise(g, x)], blocksize=size, mode=g.choice(("DCR", "DCR", "CRD")))
    return quantise(g, name, (n, c // size ** 2, h * size, w * size), x.quant)


@op(2, since=10)
def q_gemm(g):
    x = quantised(g, lambda v: v.rank == 2 and 0 not in v.shape, lambda: (g.between(1, 6), g.between(1, 20)))
    (m, k), n = x.shape, g.between(1, 12)
    trans = g.between(0, 1)
    w = Weights(g, (n, k) if trans else (k, n), 0 if trans else 1)
    quant = parameters(g, spread(g, x.quant, w.base, k))
    inputs = [dequantise(g, x), w.dequantised(g)]
    if g.chance(0.7):
        inputs.append(w.bias(g, x.quant, n)[1])
    elif g.opset < 11:
        return False
    name, = g.node("Gemm", inputs, transB=trans)
    name, slack = activation(g, name, quant)
    return quantise(g, name, (m, n), quant, slack)


@op(2, since=10)
def q_matmul(g):
    x = quantised(g, lambda v: 1 < v.rank < 5 and 0 not in v.shape, lambda: g.shape(g.between(2, 4)))
    k, n = x.shape[-1], g.between(1, 9)
    w = Weights(g, (k, n), 1)
    quant = parameters(g, spread(g, x.quant, w.base, k))
    shape = x.shape[:-1] + (n,)
    if g.chance(0.3) and not w.per_channel:
        name, = g.node("QLinearMatMul", [x, scalar(g, x.quant[0], np.float32), scalar(g, x.quant[1]), *w.parts(g), scalar(g, quant[0], np.float32),
                                         scalar(g, quant[1])])
        return store(g, name, shape, quant)
    name, = g.node("MatMul", [dequantise(g, x), w.dequantised(g)])
    return quantise(g, name, shape, quant)


@op(3, since=10)
def q_pair(g):
    """Add and Mul of two quantised values."""
    kind = g.choice(("Add", "Mul"))
    x = quantised(g)
    y = g.find(lambda v: v.dtype == x.dtype and v.quant and not v.slack and v.shape == x.shape)
    if y is None:
        shape = g.choice((x.shape, x.shape, (x.shape[1], 1, 1) if x.rank == 4 else x.shape, (1,)))
        array = g.np.integers(*limits(byte(g)), shape, endpoint=True).astype(byte(g))
        y = g.value(array, 1.0, g.chance(0.6))
        y.quant = parameters(g)
    shape = np.broadcast_shapes(x.shape, y.shape)
    scale = (x.quant[0] + y.quant[0]) * g.rng.uniform(0.5, 1.2) if kind == "Add" else x.quant[0] * y.quant[0] * 100 * g.rng.uniform(0.5, 1.5)
    quant = parameters(g, scale)
    pair = [x, y] if g.chance(0.7) else [y, x]
    if g.chance(0.3):
        inputs = []
        for v in pair:
            inputs += [v, scalar(g, v.quant[0], np.float32), scalar(g, v.quant[1])]
        name, = g.node("QLinear" + kind, inputs + [scalar(g, quant[0], np.float32), scalar(g, quant[1])], domain=MICROSOFT)
        return store(g, name, shape, quant)
    name, = g.node(kind, [dequantise(g, v) for v in pair])
    slack = 0
    if kind == "Add":
        name, slack = activation(g, name, quant)
    return quantise(g, name, shape, quant, slack)


@op(2, since=12)
def q_pool(g):
    x = picture(g)
    kind = g.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "MaxPool"))
    quant = x.quant if kind == "MaxPool" else parameters(g, x.quant[0] * g.choice((1.0, g.rng.uniform(0.5, 1.1))))
    # onnxruntime folds the mean of a constant in float.
    slack = int(g.is_constant(x) and kind != "MaxPool")
    if kind == "GlobalAveragePool":
        name, = g.node(kind, [dequantise(g, x)])
        return quantise(g, name, x.shape[:2] + (1, 1), quant, slack)
    kernel, strides, dilations, pads, shape = window(g, x.shape[2:], dilate=kind == "MaxPool")
    if kernel is None:
        return False
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations if kind == "MaxPool" else None}
    if g.chance(0.2):
        shape = ceil_shape(x.shape[2:], kernel, strides, dilations, pads)
        attributes["ceil_mode"] = 1
    if kind == "MaxPool" and sees_padding_alone(x.shape[2:], kernel, strides, dilations, pads, shape):
        return False
    if kind == "AveragePool":
        attributes["count_include_pad"] = g.choice((None, 1))
    shape = list(x.shape[:2]) + shape
    if kind == "MaxPool" and g.chance(0.3):
        name, = g.node(kind, [x], **attributes)
        return store(g, name, shape, quant)
    name, = g.node(kind, [dequantise(g, x)], **attributes)
    return quantise(g, name, shape, quant, slack)


@op(1.5, since=10)
def q_line(g):
    """Convolutions and pools of one dimension."""
    x = quantised(g, lambda v: v.rank == 3 and 0 not in v.shape, lambda: (g.between(1, 2), g.between(1, 20), g.between(1, 30)))
    n, c, length = x.shape
    kind = g.choice(("Conv", "Conv", "MaxPool", "AveragePool", "GlobalAveragePool"))
    if kind == "GlobalAveragePool":
        quant = parameters(g, x.quant[0] * g.choice((1.0, g.rng.uniform(0.5, 1.1))))
        name, = g.node(kind, [dequantise(g, x)])
        return quantise(g, name, (n, c, 1), quant, int(g.is_constant(x)))
    kernel, strides, dilations, pads, shape = window(g, x.shape[2:], g.choice((1, 3, 5)), dilate=kind != "AveragePool")
    if kernel is None:
        return False
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if kind == "Conv":
        group = g.choice([1, 1, c] + [d for d in range(1, c + 1) if c % d == 0])
        out = group * g.between(1, 3) if group > 1 else g.between(1, 20)
        if prod(shape) * n * out > MOST_ELEMENTS:
            return False
        w = Weights(g, [out, c // group] + kernel, 0)
        quant = parameters(g, spread(g, x.quant, w.base, c // group * prod(kernel)), g.chance(0.3))
        inputs = [dequantise(g, x), w.dequantised(g)]
        if g.chance(0.7):
            inputs.append(w.bias(g, x.quant, out)[1])
        name, = g.node(kind, inputs, dilations=dilations, group=group, **attributes)
        name, slack = activation(g, name, quant)
        return quantise(g, name, [n, out] + shape, quant, slack)
    if kind == "MaxPool":
        if sees_padding_alone(x.shape[2:], kernel, strides, dilations, pads, shape):
            return False
        if g.opset >= 10:
            attributes["dilations"] = dilations
        name, = g.node(kind, [dequantise(g, x)], **attributes)
        return quantise(g, name, [n, c] + shape, x.quant)
    quant = parameters(g, x.quant[0] * g.choice((1.0, g.rng.uniform(0.5, 1.1))))
    name, = g.node(kind, [dequantise(g, x)], count_include_pad=g.choice((None, 1)), **attributes)
    return quantise(g, name, [n, c] + shape, quant)


@op(1, since=11)
def q_mean(g):
    """A mean of all positions."""
    x = quantised(g, lambda v: v.rank in (3, 4) and 0 not in v.shape, lambda: (1, g.between(1, 20), g.between(1, 9), g.between(1, 9)))
    axes, kept = list(range(2, x.rank)), g.between(0, 1)
    quant = parameters(g, x.quant[0] * g.choice((1.0, g.rng.uniform(0.5, 1.1))))
    if g.opset < 18:
        name, = g.node("ReduceMean", [dequantise(g, x)], axes=axes, keepdims=kept)
    else:
        name, = g.node("ReduceMean", [dequantise(g, x), g.ints(*axes)], keepdims=kept)
    return quantise(g, name, x.shape[:2] + ((1,) * len(axes) if kept else ()), quant, 1)


@op(4, since=10)
def q_move(g):
    """Moves between DequantizeLinear and QuantizeLinear with equal parameters."""
    x = quantised(g, lambda v: v.rank > 1 and 0 not in v.shape)
    kind = g.choice(("Reshape", "Transpose", "Flatten", "Slice", "Concat", "Squeeze", "Chain"))
    name = dequantise(g, x)
    shape = x.shape
    if kind in ("Transpose", "Chain"):
        perm = list(range(x.rank))
        g.rng.shuffle(perm)
        shape = [x.shape[p] for p in perm]
        name, = g.node("Transpose", [name], perm=perm)
    if kind in ("Reshape", "Chain"):
        shape = (shape[0], prod(shape[1:])) if g.chance() else (prod(shape), 1)
        name, = g.node("Reshape", [name, g.ints(*shape)])
    if kind == "Flatten":
        shape = (x.shape[0], prod(x.shape[1:]))
        name, = g.node("Flatten", [name])
    if kind == "Slice":
        a = g.between(0, x.rank - 1)
        start, step = g.between(0, x.shape[a] - 1), g.choice((1, 1, 2))
        shape = list(x.shape)
        shape[a] = -(-(x.shape[a] - start) // step)
        name, = g.node("Slice", [name, g.ints(start), g.ints(x.shape[a]), g.ints(a), g.ints(step)])
    if kind == "Concat":
        a = g.between(0, x.rank - 1)
        shape = list(x.shape)
        if 2 * prod(shape) > MOST_ELEMENTS:
            return False
        shape[a] *= 2
        name, = g.node("Concat", [name, dequantise(g, x)], axis=a)
    if kind == "Squeeze":
        shape = [d for d in shape if d != 1]
        name, = g.node("Squeeze", [name])
    return quantise(g, name, shape, x.quant)


@op(2, since=10)
def q_clamp(g):
    """Relu and Clip from bytes to bytes of other parameters."""
    x = quantised(g)
    quant = parameters(g, x.quant[0] * g.rng.uniform(0.5, 2.0))
    name = dequantise(g, x)
    name, = g.node("Relu", [name]) if g.opset < 11 or g.chance() else g.node("Clip", [name, scalar(g, -0.5, np.float32), scalar(g, 1.25, np.float32)])
    return quantise(g, name, x.shape, quant)


@op(1, since=10)
def q_resize(g):
    """Linear interpolation by whole factors."""
    c = g.choice((1, 3, 16, 32))
    x = quantised(g, lambda v: v.rank == 4 and 0 not in v.shape, lambda: (1, c, g.between(1, 5), g.between(1, 5)))
    factor = g.between(2, 4)
    shape = x.shape[:2] + (x.shape[2] * factor, x.shape[3] * factor)
    if prod(shape) > MOST_ELEMENTS:
        return False
    quant = x.quant if g.chance(0.6) else parameters(g, x.quant[0] * g.rng.uniform(0.6, 1.2))
    scales = g.const(np.array([1, 1, factor, factor], np.float32))
    if g.opset < 11:
        name, = g.node("Resize", [dequantise(g, x), scales], mode="linear")
    else:
        how = g.choice(("half_pixel", "pytorch_half_pixel", "asymmetric"))
        sizes = g.chance(0.3)
        inputs = [dequantise(g, x), "" if g.opset > 12 else g.const(np.zeros(0, np.float32)), "" if sizes and g.opset > 12 else
                  g.const(np.zeros(0, np.float32)) if sizes else scales] + ([g.ints(*shape)] if sizes else [])
        name, = g.node("Resize", inputs, mode="linear", coordinate_transformation_mode=how)
    return quantise(g, name, shape, quant, 1)


@op(0.7, since=11)
def q_edges(g):
    """Copies of the edges of an image."""
    x = picture(g, g.choice((8, 36)))
    pads = [g.between(0, 4) for _ in range(4)]
    shape = list(x.shape[:2]) + [x.shape[2 + i] + pads[i] + pads[2 + i] for i in range(2)]
    if prod(shape) > MOST_ELEMENTS:
        return False
    name, = g.node("Pad", [dequantise(g, x), g.ints(0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3])], mode="edge")
    return quantise(g, name, shape, x.quant)


@op(1, since=10)
def q_slopes(g):
    """PRelu with a slope for each channel, or one for all."""
    x = quantised(g, lambda v: v.rank in (2, 3, 4) and 0 not in v.shape, lambda: (1, g.between(1, 20), g.between(1, 9), g.between(1, 9)))
    quant = parameters(g, x.quant[0] * g.rng.uniform(0.5, 1.5))
    shape = (x.shape[1],) + (1,) * (x.rank - 2) if g.chance(0.8) else (1,)
    slopes = g.np.uniform(-0.5 if g.chance(0.3) else 0, 1.2, shape).astype(np.float32)
    if g.chance(0.3):
        slopes = (np.round(slopes * 8) / 8).astype(np.float32)
    name, = g.node("PRelu", [dequantise(g, x), g.const(slopes)])
    return quantise(g, name, x.shape, quant)


@op(1.5, since=10)
def q_enter(g):
    """QuantizeLinear of an exact float value."""
    x = g.exact([FLOAT], lambda v: v.quant is None and v.top < 1e4)
    x.used = True
    return quantise(g, x.name, x.shape, parameters(g, max(x.top, 0.1) / 100))


@op(1.5, since=10)
def q_leave(g):
    x = quantised(g)
    top = float(x.quant[0]) * 256
    name = dequantise(g, x)
    return g.add(name, FLOAT, x.shape, -top, top, True, 0.0, x.quant)


@op(0.7, since=10)
def q_integer(g):
    """ConvInteger and MatMulInteger."""
    if g.chance():
        x = g.value(g.np.integers(0, 256, (1, g.between(1, 3), g.between(3, 6), g.between(3, 6))).astype(np.uint8), 1.0)
        out = g.between(1, 4)
        w = g.const(g.np.integers(0, 256, (out, x.shape[1], 2, 2)).astype(np.uint8))
        zeros = [scalar(g, g.between(0, 255), np.uint8), scalar(g, g.between(0, 255), np.uint8)]
        name, = g.node("ConvInteger", [x, w] + zeros)
        return g.add(name, np.int32, (1, out, x.shape[2] - 1, x.shape[3] - 1), -2 ** 22, 2 ** 22, True, 1.0)
    m, k, n = g.between(1, 5), g.between(1, 9), g.between(1, 5)
    x = g.value(g.np.integers(0, 256, (m, k)).astype(np.uint8), 1.0)
    w = g.const(g.np.integers(0, 256, (k, n)).astype(np.uint8))
    zeros = [scalar(g, g.between(0, 255), np.uint8), scalar(g, g.between(0, 255), np.uint8)]
    name, = g.node("MatMulInteger", [x, w] + (zeros if g.chance() else []))
    return g.add(name, np.int32, (m, n), -2 ** 24, 2 ** 24, True, 1.0)


@op(0.5, since=11)
def q_dynamic(g):
    x = g.exact([FLOAT], lambda v: v.size > 0)
    names = g.node("DynamicQuantizeLinear", [x], 3)
    g.add(names[1], FLOAT, (), 0, 1e3, True)
    g.add(names[2], np.uint8, (), 0, 255, True, 1.0)
    return g.add(names[0], np.uint8, x.shape, 0, 255, True, 1.0)
