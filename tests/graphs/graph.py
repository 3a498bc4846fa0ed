# SPDX-License-Identifier: MIT
"""A random ONNX graph under construction.

A graph has a pool of values. An operator (ops_*.py) takes values of the pool, or makes new inputs, and
adds its results to the pool. What the pool knows about a value decides which operators may take it:

- `lo`, `hi`: its elements lie between them, so that functions get arguments of their domain.
- `exact`: every implementation computes the same bits. Operators that jump (Floor, ArgMax, Equal,
  QuantizeLinear) take exact values only, because a rounding error would change their result.
- `grain`: all elements are multiples of it, and sums of them are exact in float32. 0: not known.
- `slack`: steps of a quantised value that docs/numerics.md allows implementations to be apart. Operators
  that only move elements take such a value.
"""
import os
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MOST_ELEMENTS = 3000
MOST_RANK = 6
# Operators of which a run has more graphs, by the names of their functions. They change what a seed makes.
PREFER = os.environ.get("GRAPHS_PREFER", "").split()
PREFERRED = 40
OPSETS = (8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
FLOAT = np.dtype(np.float32)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
INTS = [np.dtype(t) for t in (np.int32, np.int64, np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.uint64)]

# Operators: name of the function -> (function, weight, first opset, last opset)
OPERATORS = {}


def op(weight=1.0, since=1, until=99):
    """Adds a function of a graph, which returns whether it added a node, to the operators."""
    def add(function):
        OPERATORS[function.__name__] = (function, weight, since, until)
        return function
    return add


class Unfit(Exception):
    """The operator found no operand that it takes."""


class Value:
    """A tensor of the graph."""
    __slots__ = ("name", "dtype", "shape", "lo", "hi", "exact", "grain", "quant", "slack", "used")

    def __init__(self, name, dtype, shape, lo=0.0, hi=0.0, exact=True, grain=0.0, quant=None, slack=0):
        self.name, self.dtype, self.shape = name, np.dtype(dtype), shape
        self.lo, self.hi, self.exact, self.grain = float(lo), float(hi), exact, grain
        self.quant, self.slack = quant, slack  # quant: (scale, zero point) of DequantizeLinear
        self.used = False

    @property
    def top(self):
        return max(abs(self.lo), abs(self.hi))

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))


def prod(shape):
    return int(np.prod(shape, dtype=np.int64)) if len(shape) else 1


class Graph:
    """The graph of a seed. `quantised` graphs prefer operators between QuantizeLinear and its inverse."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.np = np.random.Generator(np.random.PCG64(self.rng.getrandbits(64)))
        self.opset = self.rng.choice(OPSETS)
        self.quantised = self.rng.random() < 0.4
        self.nodes, self.constants, self.inputs, self.feeds = [], [], [], {}
        self.values = []
        self.count = 0

    # ---- chance ----

    def chance(self, p=0.5):
        return self.rng.random() < p

    def between(self, lo, hi):
        return self.rng.randint(lo, hi)

    def choice(self, items):
        return self.rng.choice(items)

    def shape(self, rank=None, least=1, most=7):
        rank = self.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5)) if rank is None else rank
        while True:
            dims = tuple(self.between(least, most) for _ in range(rank))
            if prod(dims) <= MOST_ELEMENTS:
                return dims

    # ---- parts of the model ----

    def name(self, stem="t"):
        self.count += 1
        return f"{stem}{self.count}"

    def const(self, array):
        """The name of a constant: an initializer, or the result of a node Constant."""
        name = self.name("c")
        tensor = numpy_helper.from_array(np.asarray(array), name)
        if self.chance(0.15):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        return name

    @staticmethod
    def is_constant(value):
        """Whether const() made it."""
        return value.name.startswith("c")

    def ints(self, *values):
        return self.const(np.array(values, np.int64).reshape(-1))

    def node(self, kind, inputs, outputs=1, domain="", **attributes):
        """Adds a node. Inputs are values, names of constants, or "". Returns the outputs' names."""
        names = [self.name() for _ in range(outputs)]
        self.raw(kind, inputs, names, domain, **attributes)
        return names

    def raw(self, kind, inputs, names, domain="", **attributes):
        for i in inputs:
            if isinstance(i, Value):
                i.used = True
        texts = [i.name if isinstance(i, Value) else i for i in inputs]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.nodes.append(helper.make_node(kind, texts, names, f"{kind}_{len(self.nodes)}", domain=domain, **attributes))

    def add(self, name, dtype, shape, lo, hi, exact, grain=0.0, quant=None, slack=0):
        """Adds a value to the pool."""
        if grain and max(abs(lo), abs(hi)) / grain > 2 ** 22:
            grain = 0.0
        v = Value(name, dtype, None if shape is None else tuple(int(d) for d in shape), lo, hi, exact, grain, quant, slack)
        self.values.append(v)
        return v

    def result(self, kind, inputs, dtype, shape, lo, hi, exact, grain=0.0, **attributes):
        """A node with one output."""
        name, = self.node(kind, inputs, **attributes)
        return self.add(name, dtype, shape, lo, hi, exact, grain)

    def moved(self, kind, x, shape, extra=(), **attributes):
        """A node that moves the elements of `x`."""
        name, = self.node(kind, [x, *extra], **attributes)
        return self.like(x, name, shape)

    def like(self, x, name, shape):
        return self.add(name, x.dtype, shape, x.lo, x.hi, x.exact, x.grain, x.quant, x.slack)

    # ---- data ----

    def data(self, dtype, shape, lo=-4, hi=4):
        """(array, grain): random elements; floats are multiples of the grain, or any if it is 0."""
        dtype = np.dtype(dtype)
        if dtype == BOOL:
            return self.np.integers(0, 2, shape).astype(np.bool_), 1.0
        if dtype != FLOAT:
            return self.np.integers(int(lo), int(hi), shape, endpoint=True).astype(dtype), 1.0
        if self.chance(0.6) and hi - lo >= 1:
            return (self.np.integers(int(np.ceil(lo * 4)), int(np.floor(hi * 4)), shape, endpoint=True) / 4).astype(np.float32), 0.25
        return self.np.uniform(lo, hi, shape).astype(np.float32), 0.0

    @staticmethod
    def limits(dtype):
        """The range of elements of new values."""
        dtype = np.dtype(dtype)
        if dtype == BOOL:
            return 0, 1
        if dtype == FLOAT:
            return -4, 4
        return (0, 20) if dtype.kind == "u" else (-10, 10)

    def value(self, array, grain, dynamic=None):
        """A new input of the graph, or a constant."""
        array = np.asarray(array)
        lo, hi = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        if dynamic is False or (dynamic is None and self.inputs and self.chance(0.35)):
            return self.add(self.const(array), array.dtype, array.shape, lo, hi, True, grain)
        name = self.name("x")
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
        self.feeds[name] = array
        return self.add(name, array.dtype, array.shape, lo, hi, True, grain)

    def fresh(self, dtype=FLOAT, shape=None, lo=None, hi=None, dynamic=None):
        shape = self.shape() if shape is None else shape
        low, high = self.limits(dtype)
        array, grain = self.data(dtype, shape, low if lo is None else lo, high if hi is None else hi)
        return self.value(array, grain, dynamic)

    # ---- choice of operands ----

    def find(self, accept):
        """A value of the pool that `accept` takes, the latest ones first; or None."""
        for v in reversed(self.values):
            if v.shape is not None and accept(v) and self.chance(0.6):
                return v
        return None

    def any_float(self, accept=lambda v: True, shape=None, slack=False):
        v = self.find(lambda v: v.dtype == FLOAT and (slack or not v.slack) and accept(v))
        if v is None:
            v = self.fresh(FLOAT, self.shape() if shape is None else shape())
            if not accept(v):
                raise Unfit
        return v

    def exact(self, dtypes, accept=lambda v: True, shape=None):
        """An exact value of one of the types."""
        v = self.find(lambda v: v.dtype in dtypes and v.exact and not v.slack and accept(v))
        if v is None:
            v = self.fresh(self.choice(dtypes), self.shape() if shape is None else shape())
            if not accept(v):
                raise Unfit
        return v

    def anything(self, accept=lambda v: True, shape=None):
        """A value of any type, for operators that move elements."""
        v = self.find(accept)
        if v is None:
            dtype = self.choice([FLOAT] * 4 + INTS + [BOOL])
            v = self.fresh(dtype, self.shape() if shape is None else shape())
            if not accept(v):
                raise Unfit
        return v

    def fit(self, x, lo, hi):
        """`x`, or `x` limited to a range that lies in [lo, hi]."""
        if x.lo >= lo and x.hi <= hi:
            return x
        bounds = (max(lo, x.lo) if x.lo <= hi else lo, min(hi, x.hi) if x.hi >= lo else hi)
        bounds = tuple(float(np.float32(b)) for b in bounds)
        bounds = (lo, hi) if bounds[0] < lo or bounds[1] > hi else bounds
        grain = x.grain if x.grain and all(b % x.grain == 0 for b in bounds) else 0.0
        if self.opset < 11:
            return self.result("Clip", [x], FLOAT, x.shape, *bounds, x.exact, grain, min=bounds[0], max=bounds[1])
        return self.result("Clip", [x] + [self.const(np.float32(b)) for b in bounds], FLOAT, x.shape, *bounds, x.exact, grain)

    def partner(self, x, accept=lambda v: True, lo=None, hi=None):
        """A value of the type of `x` that broadcasts with it."""
        def fits(v):
            if v.dtype != x.dtype or v.slack or not accept(v) or v.rank > MOST_RANK:
                return False
            try:
                return prod(np.broadcast_shapes(v.shape, x.shape)) <= MOST_ELEMENTS
            except ValueError:
                return False
        v = self.find(fits) if self.chance(0.6) else None
        if v is None or (lo is not None and v.lo < lo) or (hi is not None and v.hi > hi):
            shape = x.shape[self.between(0, x.rank):] if x.rank else ()
            shape = tuple(1 if self.chance(0.25) else d for d in shape)
            v = self.fresh(x.dtype, shape, lo, hi)
        return v

    # ---- the model ----

    def grow(self, steps):
        """Adds `steps` operators."""
        rows = [(f, w, name) for name, (f, w, since, until) in OPERATORS.items() if since <= self.opset <= until]
        weights = [w * ((10 if self.quantised else 0.3) if name.startswith("q_") else 1) * (PREFERRED if name in PREFER else 1)
                   for _, w, name in rows]
        tries = 0
        while steps > 0 and tries < 200:
            tries += 1
            function = self.rng.choices(rows, weights)[0][0]
            try:
                steps -= function(self) is not False
            except (Unfit, ValueError):  # NumPy refuses an empty operand
                pass

    def outputs(self):
        """Every value that no node reads, and some that one does."""
        made = {n for node in self.nodes if node.op_type != "Constant" for n in node.output}
        leaves = [v for v in self.values if v.name in made and not v.used]
        inner = [v for v in self.values if v.name in made and v.used and self.chance(0.08)]
        return (leaves + inner)[:12]

    def model(self):
        outs = self.outputs()
        infos = [helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for v in outs]
        graph = helper.make_graph(self.nodes, "random", self.inputs, infos, self.constants)
        domains = sorted({n.domain for n in self.nodes} - {""})
        imports = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, 1) for d in domains]
        return helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 19 else 9 if self.opset < 21 else
                                 10 if self.opset < 23 else 11)


def axis_of(g, rank, negative=True):
    """An axis, sometimes counted from the end."""
    a = g.between(0, rank - 1)
    return a, (a - rank if negative and g.chance(0.3) else a)


__all__ = ["Graph", "Unfit", "Value", "op", "OPERATORS", "FLOAT", "INT64", "BOOL", "INTS", "MOST_ELEMENTS", "MOST_RANK", "TensorProto", "axis_of",
           "prod", "np", "helper", "numpy_helper"]
