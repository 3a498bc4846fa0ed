# SPDX-License-Identifier: MIT
"""Trains a binary residual network on Fashion-MNIST and its twin with real weights and ReLU.

    python train_binary.py binary -o models/binary.onnx
    python train_binary.py real -o models/binary-real.onnx

The binary one is trained with the straight-through estimator: a sign passes the gradient of a
piecewise quadratic function, as in Bi-Real Net, and a weight that of the identity between -1 and 1.
Its file is plain ONNX: Where(x >= 0, 1, -1) before each binary convolution, weights of plus or minus
the mean magnitude of their output channel, and a BatchNormalization behind.
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

    def shortcut(self, x):
        return x if self.fit is None else self.fit_norm(self.fit(nnf.avg_pool2d(x, 2)))

    def forward(self, x):
        if not self.binary:
            return nnf.relu(self.norm(self.conv(x)) + self.shortcut(x))
        w = straight_through(self.conv.weight)
        y = nnf.conv2d(Sign.apply(x), w, None, self.conv.stride, self.conv.padding)
        return self.norm(y) + self.shortcut(x)

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
        self.lr, self.decay, self.fast = (0.005, 0.0, True) if binary else (0.2, 5e-4, True)
        self.stem, self.norm = nn.Conv2d(1, 32, 5, 2, 2, bias=False), nn.BatchNorm2d(32)
        self.blocks = nn.ModuleList([Block(32, 64, 2, binary), Block(64, 64, 1, binary),
                                     Block(64, 64, 1, binary)])
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = self.norm(self.stem(x))
        x = x if self.binary else nnf.relu(x)
        for b in self.blocks:
            x = b(x)
        return self.fc(x.mean((2, 3)))

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
    ap.add_argument("--epochs", type=int, help="default 10, or 6 with real weights")
    ap.add_argument("--threads", type=int, default=2)
    opt = ap.parse_args()
    torch.manual_seed(train.SEED)
    torch.set_num_threads(opt.threads)
    net = Residual(opt.kind == "binary")
    train.train(net, opt.epochs or (10 if net.binary else 6))
    net.eval()
    graph = Graph()
    opt.output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph.model(net.export(graph)), opt.output)
    print(f"wrote {opt.output}: {opt.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
