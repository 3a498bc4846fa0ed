# SPDX-License-Identifier: MIT
"""Trains the networks of RR-SC for the stochastic mode and writes them as QDQ ONNX files.

    python train_sc.py mlp -o models/mlp.onnx
    python train_sc.py lenet540 -o models/lenet540.onnx
    python train_sc.py mlp --length 20 --epochs 4 --start build/models/mlp.pt -o build/models/mlp20.onnx

Float training with Adam on all 60,000 images, weights clipped to [-1, 1]. With --length the forward pass
is also computed bit by bit on streams of that length, exactly as the device does, and the loss is the mean of both;
gradients are those of the float products. Activations are uint8 with zero point 0 (99.9th
percentile), weights int8 per row, biases int32.
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


def sobol(dim, n):
    """The first n values of dimension 1 or 2, 8 bits, in Gray-code order (uapi/sc.c)."""
    v = [1 << (31 - i) for i in range(32)]
    if dim == 2:
        for i in range(1, 32):
            v[i] = v[i - 1] ^ v[i - 1] >> 1
    out, x = [], 0
    for k in range(n):
        out.append(x >> 24)
        x ^= v[(~k & k + 1).bit_length() - 1]
    return torch.tensor(out, dtype=torch.float32)


class Layer(nn.Module):
    """A convolution (kernel k) or a matrix product, computed on [N, features] patches."""

    def __init__(self, cin, cout, k=0):
        super().__init__()
        self.k = k
        self.f = nn.Conv2d(cin, cout, k) if k else nn.Linear(cin, cout)
        self.amax = 1.0    # of its input, as the quantiser will see it

    def rows(self):
        return self.f.weight.flatten(1)

    def streams(self, x, length):
        """The sums of the device (ones of both streams), scaled to real numbers."""
        w = self.rows()
        ws = w.abs().amax(1, keepdim=True) / 127
        code = (w / ws).round().clamp(-127, 127)
        wb = ((2 * code.abs()).unsqueeze(-1) > sobol(2, length)).float() * code.sign().unsqueeze(-1)
        xq = (x / (self.amax / 255)).round().clamp(0, 255)
        xb = (xq.unsqueeze(-1) > sobol(1, length)).float()
        acc = xb.flatten(1) @ wb.flatten(1).T
        return acc * (self.amax / 255 * ws.T * 32768 / length)

    def forward(self, x, length=0):
        if not length:
            return self.f(x)
        n, side = len(x), 0
        if self.k:
            side = x.shape[2] - self.k + 1
            x = nnf.unfold(x, self.k).transpose(1, 2).reshape(n * side * side, -1)
        with torch.no_grad():
            sc = self.streams(x, length)
        real = x @ self.rows().T
        y = real + (sc - real).detach() + self.f.bias
        return y.reshape(n, side, side, -1).permute(0, 3, 1, 2) if self.k else y


class Net(nn.Module):
    """Layers in order; "pool" is the Pool(1, 2) of RR-SC, which keeps every second pixel."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(p for p in parts if isinstance(p, Layer))
        self.order = parts

    def forward(self, x, length=0, seen=None):
        for i, p in enumerate(self.order):
            if p == "pool":
                x = x[:, :, ::2, ::2]
                continue
            if not p.k:
                x = x.flatten(1)
            if seen is not None:
                seen.append(x)
            x = p(x, length)
            x = x if i == len(self.order) - 1 else torch.relu(x)
        return x


NETS = {
    "mlp": (lambda: Net(Layer(784, 200), Layer(200, 32), Layer(32, 10)), 16),
    "lenet540": (lambda: Net(Layer(1, 6, 3), "pool", Layer(6, 64, 7), "pool",
                             Layer(1024, 32), Layer(32, 128), Layer(128, 10)), 12),
}


def calibrate(net, x):
    """The 99.9th percentile of every layer's input; that of the image is fixed, because it is bytes over 255."""
    seen = []
    with torch.no_grad():
        net(x, seen=seen)
    for p, v in zip(net.parts, seen):
        p.amax = float(np.quantile(v.numpy(), 0.999)) or 1.0
    net.parts[0].amax = 1.0


def accuracy(net, x, y, length=0, step=500):
    with torch.no_grad():
        hits = sum((net(x[i:i + step], length).argmax(1) == y[i:i + step]).sum().item()
                   for i in range(0, len(x), step))
    return 100 * hits / len(x)


def train(net, opt, data):
    x, y, tx, ty = data
    gen = torch.Generator().manual_seed(opt.seed)
    adam = torch.optim.Adam(net.parameters(), opt.lr / 2)
    steps = opt.epochs * (len(x) // opt.batch)
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, opt.lr, steps, pct_start=0.2)
    for epoch in range(opt.epochs):
        start, order = time.monotonic(), torch.randperm(len(x), generator=gen)
        for i in range(0, len(x) - opt.batch + 1, opt.batch):
            pick = order[i:i + opt.batch]
            loss = nnf.cross_entropy(net(x[pick]), y[pick])
            if opt.length:
                if i % (100 * opt.batch) == 0:
                    calibrate(net, x[:1000])
                sc = nnf.cross_entropy(net(x[pick], opt.length), y[pick])
                loss = (1 - opt.share) * loss + opt.share * sc
            adam.zero_grad()
            loss.backward()
            adam.step()
            plan.step()
            with torch.no_grad():
                for p in net.parameters():
                    p.clamp_(-1, 1)
        calibrate(net, x[:1000])
        short = f", {opt.length} bits {accuracy(net, tx, ty, opt.length, 100):.2f} %" if opt.length else ""
        print(f"epoch {epoch + 1}/{opt.epochs}: loss {loss.item():.3f}, test accuracy "
              f"{accuracy(net, tx, ty):.2f} %{short}, {time.monotonic() - start:.0f} s", flush=True)


class Qdq:
    """Collects nodes of a QDQ graph; every method returns the name of its output."""

    def __init__(self):
        self.nodes, self.init = [], []

    def const(self, name, array):
        self.init.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, name, **attrs):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attrs))
        return name

    def act(self, x, name, scale, zp=0):
        s = [self.const(name + "_s", np.float32(scale)), self.const(name + "_z", np.uint8(zp))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x] + s, name + "_q")] + s,
                         name + "_dq")

    def layer(self, p, i, x, xs):
        w = p.f.weight.detach().numpy()
        flat = w.reshape(len(w), -1)
        ws = np.maximum(np.abs(flat).max(1), 1e-6).astype(np.float32) / np.float32(127)
        q = np.clip(np.rint(flat / ws[:, None]), -127, 127).astype(np.int8).reshape(w.shape)
        bs = np.float32(xs) * ws
        b = np.rint(p.f.bias.detach().numpy() / bs).astype(np.int32)
        wd = self.node("DequantizeLinear", [self.const(f"w{i}", q), self.const(f"w{i}_s", ws),
                                            self.const(f"w{i}_z", np.zeros(len(w), np.int8))],
                       f"w{i}_dq", axis=0)
        bd = self.node("DequantizeLinear", [self.const(f"b{i}", b), self.const(f"b{i}_s", bs),
                                            self.const(f"b{i}_z", np.zeros(len(w), np.int32))],
                       f"b{i}_dq", axis=0)
        if p.k:
            return self.node("Conv", [x, wd, bd], f"conv{i}", kernel_shape=[p.k, p.k])
        return self.node("Gemm", [x, wd, bd], f"fc{i}", transB=1)

    def model(self, name):
        info = helper.make_tensor_value_info
        self.nodes[-1].output[0] = "scores"
        graph = helper.make_graph(self.nodes, name,
                                  [info("image", TensorProto.FLOAT, ["N", 1, 28, 28])],
                                  [info("scores", TensorProto.FLOAT, ["N", 10])], self.init)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8,
                                  producer_name="rivulet-train")
        onnx.checker.check_model(model, full_check=True)
        return model


def export(net, name, x):
    """Scores are uint8, with the zero point in the middle of their range on the calibration images."""
    calibrate(net, x)
    g, i, flat = Qdq(), 0, False
    with torch.no_grad():
        scores = net(x)
    v = g.act("image", "a0", np.float32(1) / np.float32(255))
    for at, p in enumerate(net.order):
        if p == "pool":
            v = g.node("MaxPool", [v], f"pool{at}", kernel_shape=[1, 1], strides=[2, 2])
            continue
        if not p.k and not flat:
            v, flat = g.node("Flatten", [v], "flat"), True
        v = g.layer(p, i, v, np.float32(p.amax) / np.float32(255))
        i += 1
        if at == len(net.order) - 1:
            lo, hi = float(scores.min()), float(scores.max())
            v = g.act(v, "scores", (hi - lo) / 255, round(-lo * 255 / (hi - lo)))
        else:
            v = g.act(g.node("Relu", [v], f"relu{i}"), f"a{i}", np.float32(net.parts[i].amax) / np.float32(255))
    return g.model(name)


def load():
    def part(name):
        return (torch.from_numpy(fashion.to_input(fashion.images(name))),
                torch.from_numpy(fashion.labels(name).astype(np.int64)))
    return part("train") + part("t10k")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("net", choices=list(NETS))
    ap.add_argument("-o", "--output", type=pathlib.Path, required=True)
    ap.add_argument("--epochs", type=int)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--seed", type=int, default=SEED)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--length", type=int, default=0, help="also train on streams of so many bits")
    ap.add_argument("--share", type=float, default=0.5, help="of the loss on streams (default 0.5)")
    ap.add_argument("--start", type=pathlib.Path, help="weights to go on from (.pt)")
    opt = ap.parse_args()
    torch.manual_seed(opt.seed)
    torch.set_num_threads(opt.threads)
    make, epochs = NETS[opt.net]
    net, data = make(), load()
    opt.epochs = epochs if opt.epochs is None else opt.epochs
    if opt.start:
        net.load_state_dict(torch.load(opt.start))
    if opt.epochs:
        train(net, opt, data)
    opt.output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(export(net, opt.net, data[0][:2000]), opt.output)
    weights = pathlib.Path("build/models") / (opt.output.stem + ".pt")
    weights.parent.mkdir(parents=True, exist_ok=True)
    torch.save(net.state_dict(), weights)
    print(f"wrote {opt.output}, {opt.output.stat().st_size} bytes, and {weights}")


if __name__ == "__main__":
    main()
