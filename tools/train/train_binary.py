# SPDX-License-Identifier: MIT
r"""Trains a binary residual network on Fashion-MNIST and its twin with real weights and ReLU.

    python train_binary.py binary -o build/models/binary.float.onnx
    python train_binary.py binary --start build/models/binary.float.onnx -o build/models/binary.tuned.onnx
    python train_binary.py binary --start build/models/binary.tuned.onnx --rounded 0.1 --pictures 16000 \
        -o models/binary.onnx
    python train_binary.py real -o models/binary-real.onnx

The binary one is trained with the straight-through estimator: a sign passes the gradient of a
piecewise quadratic function, as in Bi-Real Net, and a weight that of the identity between -1 and 1.
Its file is plain ONNX: Where(x >= 0, 1, -1) before each binary convolution, weights of plus or minus
the mean magnitude of their output channel, and a BatchNormalization behind.

A sign turns a small change of its operand into a large one, so that a network which has seen only
floats loses accuracy if its images are stored in 8 bits. --start trains a network further in which
these values and the weights of the other convolutions are rounded as on the device. Each value is
rounded for a share of the pictures: first for half of them, then for few, so that the network is as good
in float as on the device.
"""
import argparse
import pathlib

import numpy as np
import onnx
import torch
import torch.nn.functional as nnf
from onnx import helper, numpy_helper
from torch import nn

import train


def signs(x):
    """1 where @x is 0 or more, else -1."""
    return x.ge(0).to(x.dtype).mul_(2).sub_(1)


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return signs(x)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return x.abs().mul_(-2).add_(2).clamp_(min=0).mul_(grad)


def binary_weights(w):
    """Signs of @w times the mean magnitude of their row."""
    w = w.detach()
    return signs(w) * w.abs().mean((1, 2, 3), keepdim=True)


def straight_through(w):
    """binary_weights(), with the gradient of clamp(w, -1, 1). The sums round, so they are not exported."""
    soft = w.clamp(-1, 1)
    return binary_weights(w) + soft - soft.detach()


class Rounding(nn.Module):
    """Rounds to 256 steps between the extremes so far, a share of the pictures, while training only."""

    def __init__(self, share):
        super().__init__()
        self.share = share
        self.lo, self.hi = 0.0, 0.0

    def forward(self, x):
        if not self.training:
            return x
        with torch.no_grad():
            self.lo = min(0.99 * self.lo, x.min().item())
            self.hi = max(0.99 * self.hi, x.max().item())
            step = (self.hi - self.lo) / 255 * torch.empty(len(x), 1, 1, 1).uniform_(0.8, 1.2)
            change = torch.round(x / step) * step - x
            change *= torch.rand(len(x), 1, 1, 1) < self.share
        return x + change


def rounded_weights(w):
    """255 steps for each row, with the gradient of @w."""
    step = w.detach().abs().amax((1, 2, 3), keepdim=True) / 127
    return w + (torch.round(w / step) * step - w).detach()


class Started(nn.Conv2d):
    """A convolution with the weights and biases of a file, rounded while training."""

    def __init__(self, values, name, stride=1, padding=0):
        w, b = (torch.from_numpy(values[f"{name}_{k}"].copy()) for k in "wb")
        super().__init__(w.shape[1], w.shape[0], w.shape[2], stride, padding)
        self.weight.data, self.bias.data = w, b

    def forward(self, x):
        w = rounded_weights(self.weight) if self.training else self.weight
        return nnf.conv2d(x, w, self.bias, self.stride, self.padding)


class Block(nn.Module):
    """norm(conv(sign(x))) plus the input, which a mean of 2 x 2 and a 1 x 1 convolution fit."""

    def __init__(self, cin, cout, stride, binary):
        super().__init__()
        self.binary = binary
        self.conv = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(cout)
        self.fit = self.fit_norm = None
        if stride != 1 or cin != cout:
            self.fit, self.fit_norm = nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout)
        self.rounding = nn.ModuleList([nn.Identity() for _ in range(3)])

    def shortcut(self, x):
        if self.fit is None:
            return x
        x = self.fit(self.rounding[0](nnf.avg_pool2d(x, 2)))
        return self.rounding[1](x if self.fit_norm is None else self.fit_norm(x))

    def forward(self, x):
        if not self.binary:
            return nnf.relu(self.norm(self.conv(x)) + self.shortcut(x))
        w = straight_through(self.conv.weight)
        y = nnf.conv2d(Sign.apply(x), w, None, self.conv.stride, self.conv.padding)
        return self.rounding[2](self.norm(y) + self.shortcut(x))

    def start(self, values, name, share):
        """Takes the values of a file, with rounding."""
        if self.fit is not None:
            self.fit, self.fit_norm = Started(values, name + "_fit"), None
        self.rounding = nn.ModuleList([Rounding(share) for _ in range(3)])
        self.conv.weight.data = torch.from_numpy(values[name + "_w"].copy())
        for ours, theirs in (("weight", "gamma"), ("bias", "beta"), ("running_mean", "mean"),
                             ("running_var", "var")):
            getattr(self.norm, ours).data = torch.from_numpy(values[f"{name}_{theirs}"].copy())

    def export(self, g, name, x):
        y = g.binary_conv(name, x, self) if self.binary else g.conv(name, x, self.conv, self.norm)
        if self.fit is not None:
            x = g.pool("AveragePool", x, 2)
            x = g.conv(name + "_fit", x, self.fit, self.fit_norm)
        y = g.node("Add", [y, x], name + "_add")
        return y if self.binary else g.relu(y)


class Residual(nn.Module):
    """A stem of 32 channels and three blocks of 64, of which the first halves the size."""

    def __init__(self, binary):
        super().__init__()
        self.binary = binary
        self.lr, self.decay = (0.005, 0.0) if binary else (0.2, 5e-4)
        self.layout = torch.channels_last  # faster than NCHW by a third
        self.stem, self.norm = nn.Conv2d(1, 32, 5, 2, 2, bias=False), nn.BatchNorm2d(32)
        self.blocks = nn.ModuleList([Block(32, 64, 2, binary), Block(64, 64, 1, binary),
                                     Block(64, 64, 1, binary)])
        self.fc = nn.Linear(64, 10)
        self.rounding = nn.Identity()

    def forward(self, x):
        x = self.stem(x)
        x = x if self.norm is None else self.norm(x)
        x = self.rounding(x) if self.binary else nnf.relu(x)
        for b in self.blocks:
            x = b(x)
        return self.fc(x.mean((2, 3)))

    def start(self, path, share):
        """Takes the weights of a file that the binary kind wrote; its operands are rounded from now on."""
        values = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        self.lr = 0.001
        self.stem, self.norm, self.rounding = Started(values, "stem", 2, 2), None, Rounding(share)
        for i, b in enumerate(self.blocks):
            b.start(values, f"b{i + 1}", share)
        for k, p in (("w", self.fc.weight), ("b", self.fc.bias)):
            p.data = torch.from_numpy(values["fc_" + k].copy())

    def export(self, g):
        x = g.conv("stem", g.input, self.stem, self.norm)
        x = x if self.binary else g.relu(x)
        for i, b in enumerate(self.blocks):
            x = b.export(g, f"b{i + 1}", x)
        x = g.node("GlobalAveragePool", [x], "gap")
        return g.gemm("fc", g.node("Flatten", [x], "flat"), self.fc)


class Graph(train.Graph):
    def constants(self):
        """Names of 0, 1 and -1."""
        names = {"zero": 0.0, "one": 1.0, "minus_one": -1.0}
        if not any(t.name == "zero" for t in self.init):
            self.init += [numpy_helper.from_array(np.float32(v), n) for n, v in names.items()]
        return list(names)

    def binary_conv(self, name, x, block):
        zero, one, minus_one = self.constants()
        positive = self.node("GreaterOrEqual", [x, zero], name + "_positive")
        sign = self.node("Where", [positive, one, minus_one], name + "_sign")
        w = self.const(name + "_w", binary_weights(block.conv.weight))
        y = self.node("Conv", [sign, w], name, kernel_shape=[3, 3], pads=[1] * 4,
                      strides=list(block.conv.stride))
        n = block.norm
        params = [self.const(f"{name}_{k}", v.detach()) for k, v in
                  (("gamma", n.weight), ("beta", n.bias), ("mean", n.running_mean),
                   ("var", n.running_var))]
        return self.node("BatchNormalization", [y, *params], name + "_norm", epsilon=n.eps)


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("kind", choices=["binary", "real"])
    ap.add_argument("-o", "--output", type=pathlib.Path, required=True)
    ap.add_argument("--epochs", type=int, help="default 6, or 3 with real weights, or 1 with --start")
    ap.add_argument("--start", type=pathlib.Path, help="a file of the binary kind to train further")
    ap.add_argument("--rounded", type=float, default=0.5, help="share of the pictures, with --start (0.5)")
    ap.add_argument("--pictures", type=int, default=60000, help="of an epoch (60000)")
    ap.add_argument("--threads", type=int, default=1)
    opt = ap.parse_args()
    torch.manual_seed(train.SEED)
    torch.set_num_threads(opt.threads)
    net = Residual(opt.kind == "binary")
    if opt.start:
        net.start(opt.start, opt.rounded)
    train.train(net, opt.epochs or (1 if opt.start else 6 if net.binary else 3),
                pictures=opt.pictures)
    net.eval()
    graph = Graph()
    opt.output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph.model(net.export(graph)), opt.output)
    print(f"wrote {opt.output}: {opt.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
