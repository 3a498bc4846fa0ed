# SPDX-License-Identifier: MIT
"""Fine-tunes a pruned float model; weights that are zero stay zero.

    rivulet prune cnn-0.onnx --sparsity 75 -o pruned.onnx
    python finetune.py pruned.onnx --dense cnn-0.onnx -o cnn-75.onnx

Two steps, either of which can be left out. --refit solves each layer for the kept weights and biases
whose results come closest to those of the dense model, by least squares over so many images; the
layer reads what the fine-tuned layers before it make. --steps is gradient descent on the labels and
on the answers of the dense model. Examples are Fashion-MNIST's training images, or --images and
--labels (.npy).
"""
import argparse

import numpy as np
import onnx
import torch
import torch.nn.functional as nnf
from onnx import numpy_helper

import fashion
import train

RIDGE = 1e-4       # of the mean square of the inputs
ROWS = 15000       # equations of a layer
SOFTEN = 2.0       # temperature of the dense model's answers


# ---- ONNX in PyTorch ----

def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def padded(x, pads, value=0.0):
    n = len(pads) // 2
    return nnf.pad(x, [p for i in reversed(range(n)) for p in (pads[i], pads[n + i])], value=value)


def conv(a, x, w, b=None):
    x = padded(x, a.get("pads", [0] * 4))
    return nnf.conv2d(x, w, b, a.get("strides", [1, 1]), 0, a.get("dilations", [1, 1]),
                      a.get("group", 1))


def max_pool(a, x):
    x = padded(x, a.get("pads", [0] * 4), float("-inf"))
    return nnf.max_pool2d(x, a["kernel_shape"], a.get("strides", [1, 1]))


def average_pool(a, x):
    if any(a.get("pads", ())):
        raise SystemExit("AveragePool with padding is not among the operators of this script")
    return nnf.avg_pool2d(x, a["kernel_shape"], a.get("strides", [1, 1]))


def gemm(a, x, w, b=None):
    y = x @ (w.t() if a.get("transB") else w)
    return y if b is None else y + b


OPERATORS = {
    "Conv": conv, "Gemm": gemm, "MaxPool": max_pool, "AveragePool": average_pool,
    "MatMul": lambda a, x, w: x @ w,
    "Relu": lambda a, x: nnf.relu(x),
    "Clip": lambda a, x, lo=None, hi=None: torch.clamp(x, lo, hi),
    "Add": lambda a, x, y: x + y,
    "Mul": lambda a, x, y: x * y,
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Flatten": lambda a, x: x.flatten(1),
    "Identity": lambda a, x: x,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
}
PRODUCTS = ("Conv", "Gemm", "MatMul")


class Model(torch.nn.Module):
    """@model with its Conv, Gemm and MatMul weights and biases as parameters."""
    fast = True    # see train.forward()

    def __init__(self, model):
        super().__init__()
        missing = {n.op_type for n in model.graph.node} - set(OPERATORS)
        if missing:
            raise SystemExit(f"operators that this script does not have: {', '.join(sorted(missing))}")
        self.proto = model
        self.constants = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy())
                          for t in model.graph.initializer}
        self.nodes = [(n, attributes(n)) for n in model.graph.node]
        self.products = [n for n, _ in self.nodes if n.op_type in PRODUCTS]
        self.masks = {n.input[1]: self.constants[n.input[1]] != 0 for n in self.products}
        names = [i for n in self.products for i in n.input[1:] if i]
        self.keys = {name: f"p{i}" for i, name in enumerate(dict.fromkeys(names))}
        for name, key in self.keys.items():
            self.register_parameter(key, torch.nn.Parameter(self.constants[name]))

    def value(self, name):
        key = self.keys.get(name)
        return self.constants[name] if key is None else getattr(self, key)

    def forward(self, x, name=None):
        """The scores, or the value called @name."""
        name = name or self.proto.graph.output[0].name
        values = {self.proto.graph.input[0].name: x}
        for n, a in self.nodes:
            if name in values:
                break
            ins = [None if not i else values[i] if i in values else self.value(i) for i in n.input]
            values[n.output[0]] = OPERATORS[n.op_type](a, *ins)
        return values[name]

    def added_before(self, node):
        """The name of what is added to the result of @node and computed before it, or None."""
        order = [n.output[0] for n, _ in self.nodes]
        for n, _ in self.nodes:
            if n.op_type == "Add" and node.output[0] in n.input:
                other = next((i for i in n.input if i != node.output[0]), None)
                if other in order and order.index(other) < order.index(node.output[0]):
                    return other
        return None

    def keep_masks(self):
        with torch.no_grad():
            for name, mask in self.masks.items():
                self.value(name).mul_(mask)

    def save(self, path):
        self.keep_masks()
        for t in self.proto.graph.initializer:
            if t.name in self.keys:
                array = self.value(t.name).detach().numpy()
                t.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), t.name))
        onnx.checker.check_model(self.proto, full_check=True)
        onnx.save(self.proto, path)


# ---- least squares ----

def patches(node, a, w, x):
    """[equations, operands]: what each result of a group of 1 is made of."""
    if node.op_type != "Conv":
        return x
    x = nnf.unfold(padded(x, a.get("pads", [0] * 4)), w.shape[2:], a.get("dilations", [1, 1]),
                   0, a.get("strides", [1, 1]))
    return x.transpose(1, 2).flatten(0, 1)


def solve_rows(gram, right, mask):
    """Each row of weights by the equations of the operands that it keeps; the bias is the last one."""
    out = torch.zeros(mask.shape, dtype=gram.dtype)
    for i, row in enumerate(mask):
        keep = row.nonzero().flatten()
        square = gram[keep][:, keep]
        out[i, keep] = torch.linalg.solve(square, right[keep, i])
    return out


def refit_layer(net, dense, index, x, gen):
    """Weights of one layer whose results are nearest to the dense model's."""
    node, wanted = net.products[index], dense.products[index]
    a = attributes(node)
    w = net.value(node.input[1])
    if a.get("group", 1) != 1 or len(node.input) < 3 or bool(net.masks[node.input[1]].all()):
        return
    rows, target = patches(node, a, w, net(x, node.input[0])), dense(x, wanted.output[0])
    other = net.added_before(node)
    if other is not None:
        target = target + dense(x, other) - net(x, other)
    target = target.flatten(2).transpose(1, 2).flatten(0, 1) if target.dim() == 4 else target
    pick = torch.randperm(len(rows), generator=gen)[:ROWS]
    rows, target = rows[pick], target[pick]
    flip = node.op_type != "Conv" and not a.get("transB")
    as_rows = (lambda t: t.t()) if flip else (lambda t: t.flatten(1))
    rows = torch.cat([rows, torch.ones(len(rows), 1)], 1)
    gram = (rows.t() @ rows).double()
    gram += torch.eye(len(gram), dtype=torch.double) * RIDGE * gram.diagonal().mean()
    mask = as_rows(net.masks[node.input[1]])
    mask = torch.cat([mask, torch.ones(len(mask), 1, dtype=torch.bool)], 1)
    found = solve_rows(gram, (rows.t() @ target).double(), mask).float()
    kept = found[:, :-1].t() if flip else found[:, :-1].reshape(w.shape)
    w.copy_(kept)
    net.value(node.input[2]).copy_(found[:, -1])


def refit(net, dense, x, gen):
    with torch.no_grad():
        for i in range(len(net.products)):
            refit_layer(net, dense, i, x, gen)


# ---- gradient descent ----

def loss_of(scores, labels, wanted):
    loss = nnf.cross_entropy(scores, labels)
    if wanted is not None:
        kl = nnf.kl_div(nnf.log_softmax(scores / SOFTEN, 1), nnf.softmax(wanted / SOFTEN, 1),
                        reduction="batchmean")
        loss = 0.3 * loss + 0.7 * SOFTEN ** 2 * kl
    return loss


def descend(net, dense, x, y, opt, gen):
    sgd = torch.optim.SGD(net.parameters(), lr=opt.rate, momentum=0.9, nesterov=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(sgd, opt.rate, opt.steps, pct_start=0.1)
    order = torch.randperm(len(x), generator=gen)
    for step in range(opt.steps):
        at = step * opt.batch % (len(x) - opt.batch + 1)
        pick = order[at:at + opt.batch]
        batch = train.augment(x[pick], gen) if opt.augment else x[pick]
        wanted = None
        if dense is not None:
            with torch.no_grad():
                wanted = train.forward(dense, batch)
        loss = loss_of(train.forward(net, batch), y[pick], wanted)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        net.keep_masks()
        plan.step()
        if step % 50 == 49:
            print(f"step {step + 1}/{opt.steps}: loss {loss.item():.3f}", flush=True)


def examples(opt):
    if opt.images:
        return torch.from_numpy(np.load(opt.images)), torch.from_numpy(np.load(opt.labels))
    return (torch.from_numpy(fashion.to_input(fashion.images("train"))),
            torch.from_numpy(fashion.labels("train").astype(np.int64)))


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="the pruned model")
    ap.add_argument("-o", "--output", required=True)
    ap.add_argument("--dense", help="the model before it was pruned")
    ap.add_argument("--refit", type=int, default=600, help="images for least squares, with --dense")
    ap.add_argument("--steps", type=int, default=400, help="of gradient descent")
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--rate", type=float, default=0.01)
    ap.add_argument("--augment", action="store_true", help="mirror and shift images as train.py does")
    ap.add_argument("--images", help=".npy of float32, as the model takes them")
    ap.add_argument("--labels", help=".npy of int64")
    ap.add_argument("--threads", type=int, default=2)
    opt = ap.parse_args()
    torch.set_num_threads(opt.threads)
    net = Model(onnx.load(opt.model))
    dense = Model(onnx.load(opt.dense)) if opt.dense else None
    x, y = examples(opt)
    gen = torch.Generator().manual_seed(train.SEED)
    if dense is not None and opt.refit:
        refit(net, dense, x[:opt.refit], gen)
    if opt.steps:
        descend(net, dense, x, y, opt, gen)
    net.save(opt.output)
    kept = sum(int(m.sum()) for m in net.masks.values())
    print(f"wrote {opt.output}: {kept} of {sum(m.numel() for m in net.masks.values())} weights kept")


if __name__ == "__main__":
    main()
