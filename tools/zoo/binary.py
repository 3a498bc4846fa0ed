# SPDX-License-Identifier: MIT
"""Binary networks of 224 x 224 as their authors' code exports them to plain ONNX, not quantised.

BiRealNet-18 and ReActNet-A have the nodes that PyTorch writes, QuickNet those of tf2onnx behind Larq.
The parameters are random; those of the normalisations keep values near a deviation of 1, so that
both signs occur.
"""
import array
import collections
import math
import struct

from wire import FLOAT

# A float value; @rms: the expected root mean square of its values.
Wave = collections.namedtuple("Wave", "name channels size rms")

EPSILON = 1e-5
UNIFORM = math.sqrt(3)    # largest over root mean square of uniform values


# ---- parameters ----

def weights(net, dims, spread):
    """A constant of 255 levels, none of them zero, with the root mean square @spread."""
    step = 2 * UNIFORM * spread / 255
    table = [struct.pack("<f", (b - 127.5) * step) for b in range(256)]
    raw = net.rng.randbytes(math.prod(dims))
    return net.const(FLOAT, dims, b"".join(map(table.__getitem__, raw)))


def signed_weights(net, dims, scales):
    """A constant of plus or minus the scale of its row."""
    inner = math.prod(dims[1:])
    out = []
    for s in scales:
        pair = (struct.pack("<f", -s), struct.pack("<f", s))
        bits = net.rng.getrandbits(inner)
        out += [pair[bits >> i & 1] for i in range(inner)]
    return net.const(FLOAT, dims, b"".join(out))


def around(net, n, spread, mean=0.0):
    return array.array("f", (net.rng.gauss(mean, spread) for _ in range(n)))


def per_channel(net, n, spread):
    """A constant [n, 1, 1]."""
    return net.floats([n, 1, 1], around(net, n, spread))


def norm(net, x, deviation, scale=True, gain=1.0):
    """Normalises values of @deviation; one factor of twelve is negative."""
    n = x.channels
    if scale:
        gamma = [gain * net.rng.uniform(0.6, 1.2) * (1 - 2 * (net.rng.random() < 1 / 12))
                 for _ in range(n)]
        beta = around(net, n, 0.2)
    else:
        gamma, beta = [1.0] * n, [0.0] * n
    var = [(deviation * net.rng.uniform(0.8, 1.25)) ** 2 for _ in range(n)]
    mean = around(net, n, 0.2 * deviation)
    params = [net.floats([n], v) for v in (gamma, beta, mean, var)]
    y = net.op("BatchNormalization", [x.name, *params], epsilon=EPSILON)
    return Wave(y, n, x.size, gain)


# ---- signs ----

def sign(net, name):
    """As torch.sign() is exported. Sign(0) is 0."""
    return net.op("Sign", [name])


def sign_twice(net, name):
    """Larq's sign, whose result at 0 is 1."""
    return net.op("Sign", [net.op("Add", [net.op("Sign", [name]), net.floats([], [0.1])])])


def sign_where(net, name):
    """As torch.where(x >= 0, 1, -1) is exported."""
    positive = net.op("GreaterOrEqual", [name, net.floats([], [0.0])])
    return net.op("Where", [positive, net.floats([], [1.0]), net.floats([], [-1.0])])


def sign_greater(net, name):
    """(x > 0).float() * 2 - 1."""
    one = net.op("Cast", [net.op("Greater", [name, net.floats([], [0.0])])], to=FLOAT)
    return net.op("Sub", [net.op("Mul", [one, net.floats([], [2.0])]), net.floats([], [1.0])])


def sign_clip(net, name):
    """Behind a hard tanh."""
    return sign(net, net.op("Clip", [name, net.floats([], [-1.0]), net.floats([], [1.0])]))


SIGNS = {"sign": sign, "sign-sign": sign_twice, "where": sign_where, "greater": sign_greater,
         "clip": sign_clip}


def sign_of(net, own):
    """The form that the command asks for, or the network's own."""
    return SIGNS[net.sign] if net.sign else own


# ---- layers ----

def image(net):
    return Wave("image", net.dims[1], net.dims[2], 1 / UNIFORM)


def conv(net, x, m, k, stride=1, group=1, pads=None, bias=True, attenuate=1.0):
    """A convolution of real weights, whose results have the deviation @attenuate."""
    pads = [k // 2] * 4 if pads is None else pads
    terms = x.channels // group * k * k
    w = weights(net, [m, x.channels // group, k, k], attenuate / (x.rms * math.sqrt(terms)))
    ins = [x.name, w] + ([net.floats([m], around(net, m, 0.1))] if bias else [])
    y = net.op("Conv", ins, kernel_shape=[k, k], strides=[stride] * 2, pads=pads, group=group)
    return Wave(y, m, (x.size + pads[0] + pads[2] - k) // stride + 1, attenuate)


def pool(net, op, x, k, stride, pad=0):
    y = net.op(op, [x.name], kernel_shape=[k, k], strides=[stride] * 2, pads=[pad] * 4)
    return x._replace(name=y, size=(x.size + 2 * pad - k) // stride + 1)


def relu(net, x):
    return x._replace(name=net.op("Relu", [x.name]), rms=x.rms / math.sqrt(2))


def add(net, a, b):
    return a._replace(name=net.op("Add", [a.name, b.name]), rms=math.hypot(a.rms, b.rms))


def classify(net, x, softmax=False):
    x = net.op("Flatten", [net.op("GlobalAveragePool", [x.name])]), x.channels
    w = weights(net, [1000, x[1]], 1 / math.sqrt(x[1]))
    y = net.op("Gemm", [x[0], w, net.floats([1000], around(net, 1000, 0.1))], transB=1)
    if softmax:
        y = net.op("Softmax", [y], axis=1)
    net.output(y, [1, 1000])


# ---- BiRealNet-18 ----

def latent_weights(net, dims):
    """The weights as trained, a column, and the same in the shape of the layer."""
    return net.op("Reshape", [weights(net, [math.prod(dims), 1], 0.05), net.ints(*dims)])


def magnitudes(net, w):
    """Mean magnitude of each row, [m, 1, 1, 1]."""
    s = net.op("Abs", [w])
    for axis in (3, 2, 1):
        s = net.op("ReduceMean", [s], axes=[axis], keepdims=1)
    return s


def bireal_conv(net, x, m, stride):
    """Of signs, with weights sign(w) * mean(abs(w))."""
    w = latent_weights(net, [m, x.channels, 3, 3])
    w = net.op("Mul", [magnitudes(net, w), net.op("Sign", [w])])
    y = net.op("Conv", [sign_of(net, sign)(net, x.name), w], kernel_shape=[3, 3],
               strides=[stride] * 2, pads=[1] * 4)
    return Wave(y, m, x.size // stride, 0.05 * UNIFORM / 2 * math.sqrt(9 * x.channels))


def bireal_block(net, x, m, stride):
    y = bireal_conv(net, x, m, stride)
    y = norm(net, y, y.rms)
    if stride != 1:
        x = conv(net, pool(net, "AveragePool", x, 2, 2), m, 1)
    return add(net, y, x)


def birealnet18(net):
    """Each of the 16 binary convolutions has a shortcut of its own."""
    x = pool(net, "MaxPool", conv(net, image(net), 64, 7, 2), 3, 2, 1)
    for i in range(4):
        for j in range(4):
            x = bireal_block(net, x, 64 << i, 2 if i and not j else 1)
    classify(net, x)


def birealnet18_int8(net):
    """The same layers with int8 weights and activations, ReLU in place of the signs; quantised."""
    x = net.conv(net.image(), 64, 7, None, stride=2)
    x = net.max_pool(x, 3, 2, 1, grow=1.05)
    for i in range(4):
        for j in range(4):
            m, stride = 64 << i, 2 if i and not j else 1
            y = net.conv(x, m, 3, None, stride=stride)
            if stride != 1:
                x = net.same("AveragePool", x, x.size // 2, 0.75, kernel_shape=[2, 2], strides=[2, 2])
                x = net.conv(x, m, 1, None)
            x = net.add(x, y, "Relu")
    net.result(net.gemm(net.flatten(net.average(x)), 1000))


# ---- ReActNet-A ----

REACTNET = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)


def shift(net, x):
    """A learned bias of each channel."""
    return x._replace(name=net.op("Add", [x.name, per_channel(net, x.channels, 0.2)]))


def react_conv(net, x, m, k, stride=1):
    """Of signs behind a shift; the weights are signs, their mean magnitude follows as a factor."""
    w = latent_weights(net, [m, x.channels, k, k])
    y = net.op("Conv", [x.name, net.op("Sign", [w])], kernel_shape=[k, k], strides=[stride] * 2,
               pads=[k // 2] * 4)
    s = net.op("Reshape", [magnitudes(net, w), net.ints(-1, 1, 1)])
    y = Wave(net.op("Mul", [y, s]), m, x.size // stride,
             0.05 * UNIFORM / 2 * math.sqrt(k * k * x.channels))
    return norm(net, y, y.rms)


def react_sign(net, x):
    x = shift(net, x)
    return x._replace(name=sign_of(net, sign)(net, x.name))


def react_act(net, x):
    """A PReLU of each channel between two shifts."""
    x = shift(net, x)
    slope = net.floats([x.channels, 1, 1], around(net, x.channels, 0.1, 0.25))
    return shift(net, x._replace(name=net.op("PRelu", [x.name, slope]), rms=0.75 * x.rms))


def react_block(net, x, m, stride):
    n = x.channels
    y = react_conv(net, react_sign(net, x), n, 3, stride)
    x = react_act(net, add(net, pool(net, "AveragePool", x, 2, 2) if stride == 2 else x, y))
    s = react_sign(net, x)
    parts = [add(net, react_conv(net, s, n, 1), x) for _ in range(m // n)]
    if m != n:
        joined = net.op("Concat", [p.name for p in parts], axis=1)
        parts = [parts[0]._replace(name=joined, channels=m)]
    return react_act(net, parts[0])


def reactnet_a(net):
    x = conv(net, image(net), 32, 3, 2)
    for m in REACTNET:
        x = react_block(net, x, m, 2 if m not in (x.channels, 64) else 1)
    classify(net, x)


# ---- QuickNet ----

def same_pads(size, k, stride):
    """TensorFlow's padding "same": what is odd goes to the end."""
    total = max((-(-size // stride) - 1) * stride + k - size, 0)
    return [total // 2] * 2 + [total - total // 2] * 2


def quick_conv(net, x, m, k, stride=1, group=1):
    return conv(net, x, m, k, stride, group, same_pads(x.size, k, stride), bias=False)


def quick_stem(net, filters):
    x = quick_conv(net, image(net), filters // 4, 3, 2)
    x = relu(net, norm(net, x, x.rms))
    x = quick_conv(net, x, x.channels, 3, 2, x.channels)
    x = quick_conv(net, norm(net, x, x.rms, scale=False), filters, 1)
    return norm(net, x, x.rms)


def quick_block(net, x):
    """Signs are padded with 1. The activation is in front of the normalisation."""
    n = x.channels
    s = sign_of(net, sign_twice)(net, x.name)
    s = net.op("Pad", [s, net.ints(0, 0, 1, 1, 0, 0, 1, 1), net.floats([], [1.0])], mode="constant")
    w = signed_weights(net, [n, n, 3, 3], [1.0] * n)
    y = net.op("Conv", [s, w], kernel_shape=[3, 3], strides=[1, 1], pads=[0] * 4)
    y = relu(net, Wave(y, n, x.size, math.sqrt(9 * n)))
    return add(net, norm(net, y, y.rms), x)


def blur_pool(net, x):
    """3 x 3 by 2, the same weights for every channel."""
    row = (1, 2, 1)
    kernel = [a * b / 16 for a in row for b in row]
    w = net.floats([x.channels, 1, 3, 3], kernel * x.channels)
    pads = same_pads(x.size, 3, 2)
    y = net.op("Conv", [x.name, w], kernel_shape=[3, 3], strides=[2, 2], pads=pads, group=x.channels)
    return x._replace(name=y, size=-(-x.size // 2))


def quick_transition(net, x, m):
    x = blur_pool(net, pool(net, "MaxPool", relu(net, x), 2, 1))
    x = quick_conv(net, x, m, 1)
    return norm(net, x, x.rms)


def quicknet(net):
    """Version 1.0 of Larq Zoo: four sections of four blocks."""
    x = quick_stem(net, 64)
    for m in (64, 128, 256, 512):
        x = x if m == x.channels else quick_transition(net, x, m)
        for _ in range(4):
            x = quick_block(net, x)
    classify(net, relu(net, x), softmax=True)
