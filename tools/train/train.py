# SPDX-License-Identifier: MIT
"""Trains LeNet-5 and a small residual CNN on Fashion-MNIST; writes float ONNX files.

    python train.py lenet|resnet -o build/models/NAME.float.onnx

BatchNormalization is folded into the convolutions on export, so that the
quantiser sees the graph that will run.
"""
import argparse
import pathlib
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as nnf
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import fashion

SEED = 20261121


class LeNet(nn.Module):
    """LeCun 1998 with ReLU and max pooling: 61,706 parameters."""
    epochs, lr, decay = 16, 0.08, 3e-4

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 5, padding=2)
        self.c2 = nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = nnf.max_pool2d(nnf.relu(self.c1(x)), 2)
        x = nnf.max_pool2d(nnf.relu(self.c2(x)), 2).flatten(1)
        return self.f3(nnf.relu(self.f2(nnf.relu(self.f1(x)))))

    def export(self, g):
        x = g.pool("MaxPool", g.relu(g.conv("c1", g.input, self.c1)), 2)
        x = g.pool("MaxPool", g.relu(g.conv("c2", x, self.c2)), 2)
        x = g.node("Flatten", [x], "flat")
        x = g.relu(g.gemm("f1", x, self.f1))
        x = g.relu(g.gemm("f2", x, self.f2))
        return g.gemm("f3", x, self.f3)


class Block(nn.Module):
    """conv-BN-ReLU-conv-BN plus the input (1x1 conv where the shape changes), then ReLU."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.s = self.ns = None
        if stride != 1 or cin != cout:
            self.s = nn.Conv2d(cin, cout, 1, stride, bias=False)
            self.ns = nn.BatchNorm2d(cout)

    def forward(self, x):
        y = self.nb(self.b(nnf.relu(self.na(self.a(x)))))
        return nnf.relu(y + (x if self.s is None else self.ns(self.s(x))))

    def export(self, g, name, x):
        y = g.relu(g.conv(name + "a", x, self.a, self.na))
        y = g.conv(name + "b", y, self.b, self.nb)
        skip = x if self.s is None else g.conv(name + "s", x, self.s, self.ns)
        return g.relu(g.node("Add", [y, skip], name + "add"))


class ResNet(nn.Module):
    """Three stages of 16, 32, 64 channels, one block each: 77,600 weights."""
    epochs, lr, decay = 12, 0.2, 5e-4

    def __init__(self):
        super().__init__()
        self.stem, self.n0 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.blocks = nn.ModuleList([Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)])
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = nnf.relu(self.n0(self.stem(x)))
        for b in self.blocks:
            x = b(x)
        return self.fc(x.mean((2, 3)))

    def export(self, g):
        x = g.relu(g.conv("stem", g.input, self.stem, self.n0))
        for i, b in enumerate(self.blocks):
            x = b.export(g, f"s{i + 1}", x)
        x = g.node("GlobalAveragePool", [x], "gap")
        return g.gemm("fc", g.node("Flatten", [x], "flat"), self.fc)


MODELS = {"lenet": LeNet, "resnet": ResNet}


class Graph:
    """Collects ONNX nodes; every method returns the name of its output."""

    def __init__(self):
        self.input, self.nodes, self.init = "image", [], []

    def const(self, name, array):
        self.init.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def node(self, op, inputs, name, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def relu(self, x):
        return self.node("Relu", [x], x + "_relu")

    def pool(self, op, x, k):
        return self.node(op, [x], x + "_pool", kernel_shape=[k, k], strides=[k, k])

    def conv(self, name, x, conv, norm=None):
        w = conv.weight.detach().double()
        b = torch.zeros(len(w)).double() if conv.bias is None else conv.bias.detach().double()
        if norm is not None:
            k = norm.weight.detach().double() / torch.sqrt(norm.running_var.double() + norm.eps)
            w = w * k.reshape(-1, 1, 1, 1)
            b = (b - norm.running_mean.double()) * k + norm.bias.detach().double()
        p = list(conv.padding) * 2
        return self.node("Conv", [x, self.const(name + "_w", w), self.const(name + "_b", b)], name,
                         kernel_shape=list(conv.kernel_size), strides=list(conv.stride), pads=p)

    def gemm(self, name, x, fc):
        w = self.const(name + "_w", fc.weight.detach())
        return self.node("Gemm", [x, w, self.const(name + "_b", fc.bias.detach())], name, transB=1)

    def model(self, output):
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "fashion", [info(self.input, TensorProto.FLOAT, [1, 1, 28, 28])],
            [info("scores", TensorProto.FLOAT, [1, 10])], self.init)
        graph.node[-1].output[0] = "scores"
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)],
                                  ir_version=8, producer_name="rivulet-train")
        onnx.checker.check_model(model, full_check=True)
        return model


def augment(x, gen):
    """Mirror half of the batch, then shift all of it by up to two pixels."""
    flip = torch.rand(len(x), generator=gen) < 0.5
    x = torch.where(flip.reshape(-1, 1, 1, 1), x.flip(3), x)
    dy, dx = (int(v) for v in torch.randint(0, 5, (2,), generator=gen))
    return nnf.pad(x, (2, 2, 2, 2))[:, :, dy:dy + 28, dx:dx + 28]


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        hits = sum((net(x[i:i + 1000]).argmax(1) == y[i:i + 1000]).sum().item()
                   for i in range(0, len(x), 1000))
    net.train()
    return hits / len(x)


def optimiser(net):
    """SGD, or Adam where the gradients of binary weights have no common scale."""
    if getattr(net, "binary", False):
        return torch.optim.Adam(net.parameters(), lr=net.lr, weight_decay=net.decay)
    return torch.optim.SGD(net.parameters(), lr=net.lr, momentum=0.9, nesterov=True,
                           weight_decay=net.decay)


def train(net, epochs, batch=128, pictures=60000):
    x, y = torch.from_numpy(fashion.to_input(fashion.images("train"))), \
        torch.from_numpy(fashion.labels("train").astype(np.int64))
    tx, ty = torch.from_numpy(fashion.to_input(fashion.images("t10k"))), \
        torch.from_numpy(fashion.labels("t10k").astype(np.int64))
    gen = torch.Generator().manual_seed(SEED)
    layout = getattr(net, "layout", torch.contiguous_format)
    net.to(memory_format=layout)
    opt = optimiser(net)
    steps = epochs * (pictures // batch)
    plan = torch.optim.lr_scheduler.OneCycleLR(opt, net.lr, steps, pct_start=0.25)
    for epoch in range(epochs):
        start, order = time.monotonic(), torch.randperm(len(x), generator=gen)
        for i in range(0, pictures - batch + 1, batch):
            pick = order[i:i + batch]
            images = augment(x[pick], gen).contiguous(memory_format=layout)
            loss = nnf.cross_entropy(net(images), y[pick], label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            plan.step()
        print(f"epoch {epoch + 1}/{epochs}: loss {loss.item():.3f}, "
              f"test accuracy {100 * accuracy(net, tx, ty):.2f} %, "
              f"{time.monotonic() - start:.0f} s", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("model", choices=MODELS)
    ap.add_argument("-o", "--output", type=pathlib.Path, required=True)
    ap.add_argument("--epochs", type=int)
    ap.add_argument("--threads", type=int, default=2)
    opt = ap.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(opt.threads)
    net = MODELS[opt.model]()
    train(net, opt.epochs or net.epochs)
    net.eval()
    graph = Graph()
    opt.output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph.model(net.export(graph)), opt.output)
    print(f"wrote {opt.output}")


if __name__ == "__main__":
    main()
