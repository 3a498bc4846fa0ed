#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs random graphs by rivulet and by onnxruntime and compares the results.

check_graphs.py [-j JOBS] RUNNER FOLDER [COUNT [SEED]]
check_graphs.py --one RUNNER FOLDER SEED...

Each seed makes one graph (graph.py, ops_*.py). It runs by the interpreter, as a program for the CPU, as a
program for a board on the linked device model, and as such a program without views and cascades; boards
alternate. A graph is right when every result equals onnxruntime's: bytes, integers and bool exactly,
but for the exceptions of docs/numerics.md 6, floats within 1e-5 of the largest magnitude of their tensor.

FOLDER keeps what is finished, so that a run continues where an earlier run of the same files was stopped,
and each graph that is wrong: SEED.onnx and SEED.npz (inputs), both reduced to the fewest nodes found.

A float result that is further apart is `sensitive` where changes of 2^-22 in the operands of nodes move
onnxruntime's own result as far; any result is `unlike` where it equals that of onnxruntime without optimisation, or
without constant folding (numerics.md 7). Both are bounded (MOST), because a comparison that excuses too much would
hide what is wrong. A graph that onnxruntime refuses is replaced by another of the same seed.
"""
import argparse
import collections
import hashlib
import json
import multiprocessing
import multiprocessing.connection
import os
import select
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper, TensorProto
import onnxruntime as ort

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import graph as G  # noqa: E402
import ops_math  # noqa: E402,F401
import ops_more  # noqa: E402,F401
import ops_move  # noqa: E402,F401
import ops_net  # noqa: E402,F401
import ops_quant  # noqa: E402,F401
from reduce import reduce_model  # noqa: E402

BOARDS = ("zu3eg-64", "zu3eg-128", "zu3eg-256", "cyclonev-64", "dense-16x16", "zcu102-binary",
          "cyclonev-64-nodsp")
INTERPRETED, CPU, NPU, NPU_COPIES = range(4)
HOW = ("interpreter", "cpu", "npu", "npu without views")
SPARSE = 1 << 1  # of the modes of CONV
NOTHING = (0, 0)
CHUNK = 50
HANG_S = 120
TRIES = 8
# Share of the graphs whose distance may be explained in this way, beyond the first FEW. 68,450 graphs had 0.034 % and 0.006 %.
MOST = {"sensitive": 0.001, "unlike": 0.0005}
FEW = 3
TOLERANCE = 1e-5


class Runner:
    """tests/graphs/runner.c, started again after a crash."""

    def __init__(self, path, dtypes):
        self.path, self.dtypes = path, dtypes
        self.process = self.errors = None

    def start(self):
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([self.path, *BOARDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def read(self, n):
        data = b""
        while len(data) < n:
            if not select.select([self.process.stdout], [], [], HANG_S)[0]:
                raise TimeoutError
            part = os.read(self.process.stdout.fileno(), n - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def number(self, kind="<I"):
        return struct.unpack(kind, self.read(struct.calcsize(kind)))[0]

    def ask(self, model, how, board, feeds):
        """(verdict, detail, (NPU steps, modes)): "ran" with arrays, or "refused", "crashed", "hung" with a text."""
        if not self.process:
            self.start()
        parts = [struct.pack("<I", len(model)), model, struct.pack("<BBH", how, board, len(feeds))]
        for array in feeds:
            data = np.ascontiguousarray(array).tobytes()
            parts += [struct.pack("<I", len(data)), data]
        try:
            os_write(self.process.stdin, b"".join(parts))
            rc, parts, n = self.number("<i"), (self.number(), self.number()), self.number()
            if rc:
                return "refused", self.read(n).decode(errors="replace"), NOTHING
            return "ran", [self.array() for _ in range(n)], parts
        except (EOFError, BrokenPipeError):
            self.process.kill()
            self.process.communicate()
            self.errors.seek(0)
            text = self.errors.read()
            self.process = None
            return "crashed", next((line for line in text.splitlines() if "rror" in line), text[-300:]), NOTHING
        except TimeoutError:
            self.stop()
            return "hung", f"no answer in {HANG_S} s", NOTHING

    def array(self):
        kind, rank = self.number(), self.number()
        shape = struct.unpack(f"<{rank}q", self.read(8 * rank))
        return np.frombuffer(self.read(self.number()), self.dtypes[kind]).reshape(shape)


def os_write(pipe, data):
    pipe.write(data)
    pipe.flush()


def session(model, entries, level, without):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if level is not None:
        options.graph_optimization_level = level
    for entry in entries:
        options.add_session_config_entry(entry, "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"], disabled_optimizers=without)


def reference(model, feeds, int8, level=None, without=()):
    """onnxruntime's results, with the options of docs/numerics.md 7."""
    entries = ["session.qdqisint8allowed"] * int8 + ["session.x64quantprecision"]
    with np.errstate(all="ignore"):
        try:
            return session(model, entries, level, without).run(None, feeds)
        except Exception:  # pylint: disable=broad-except
            # With both options onnxruntime has no kernel for some products of int8; without the second one products
            # of uint8 by int8, which such graphs may have too, saturate on processors without VNNI.
            if not int8:
                raise
            return session(model, entries[:1], level, without).run(None, feeds)


def apart(got, want, slack):
    """Returns the difference between two results, or None."""
    want = np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if not want.size:
        return None
    if want.dtype.kind != "f":
        if np.array_equal(got, want):
            return None
        worst = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
        return None if worst <= slack else f"{int((got != want).sum())} of {want.size} elements differ, by {worst:g} at most"
    known = np.isfinite(want)
    if not np.array_equal(np.isfinite(got), known) or not np.array_equal(got[~known], want[~known], equal_nan=True):
        return "infinities or NaN differ"
    if not known.any():
        return None
    worst = np.abs(got[known].astype(np.float64) - want[known]).max()
    top = np.abs(want[known]).max()
    return None if worst <= TOLERANCE * top + 1e-30 else f"{worst:g} apart, magnitude {top:g}"


class Case:
    """The graph of a seed with the results of onnxruntime."""

    def __init__(self, model, feeds, slack, int8):
        self.model, self.feeds, self.slack, self.int8 = model, feeds, slack, int8
        self.data = model.SerializeToString()
        self.want = reference(self.data, feeds, int8)

    def differs(self, runner, how, board):
        """Returns (what is wrong, (NPU steps, modes)), with None if nothing is wrong."""
        verdict, detail, parts = runner.ask(self.data, how, board, [self.feeds[i.name] for i in self.model.graph.input])
        if verdict != "ran":
            return f"{verdict}: {detail}", NOTHING
        if len(detail) != len(self.want):
            return f"{len(detail)} outputs, not {len(self.want)}", parts
        for out, got, want in zip(self.model.graph.output, detail, self.want):
            why = apart(got, want, self.slack.get(out.name, 0))
            if why:
                return f"output {out.name}: {why}", parts
        return None, parts

    def sensitive(self, runner, how, board):
        """Whether changes of 2^-22 in the operands of nodes explain the distance."""
        verdict, got, _ = runner.ask(self.data, how, board, [self.feeds[i.name] for i in self.model.graph.input])
        if verdict != "ran" or len(got) != len(self.want):
            return False
        spread = [np.zeros(np.shape(w)) for w in self.want]
        for seed in range(6):
            try:
                changed = reference(disturbed(self.model, seed).SerializeToString(), self.feeds, self.int8, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
            except Exception:  # pylint: disable=broad-except
                return False
            for s, c, w in zip(spread, changed, self.want):
                if np.shape(c) == np.shape(w) and np.asarray(w).dtype.kind == "f":
                    np.maximum(s, np.abs(c.astype(np.float64) - w), out=s)
        for out, g, w, s in zip(self.model.graph.output, got, self.want, spread):
            if apart(g, w, self.slack.get(out.name, 0)) is None:
                continue
            if np.shape(g) != np.shape(w) or w.dtype.kind != "f":
                return False
            floor = 2.0 ** -23 if any(n.op_type in RECURRENT for n in self.model.graph.node) else 0
            if not np.abs(g.astype(np.float64) - w).max() <= max(4 * s.max(), floor):
                return False
        return True

    def agrees_with(self, runner, how, board, data=None, **options):
        """Returns whether onnxruntime with other options, or of the model @data, gives the results of rivulet."""
        try:
            self.want, kept = reference(data or self.data, self.feeds, self.int8, **options), self.want
        except Exception:  # pylint: disable=broad-except
            return False
        same = self.differs(runner, how, board)[0] is None
        self.want = kept
        return same

    def unlike(self, runner, how, board):
        """The optimisation without which onnxruntime gives the results of rivulet, or None."""
        if self.agrees_with(runner, how, board, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
            return "optimisation"
        # x64quantprecision changes neither constant products, which are folded before, nor those of opset 21.
        if self.agrees_with(runner, how, board, without=["ConstantFolding"]):
            return "constant folding"
        data = with_unsigned_weights(self.model, self.int8)
        if data and self.agrees_with(runner, how, board, data, without=["ConstantFolding"]):
            return "saturation of uint8 by int8"
        return None


# Inputs of operators on bytes: the zero point of the first operand (None: always uint8), weights, and their zero point.
PRODUCTS = {"QLinearMatMul": (2, 3, 5), "QLinearConv": (2, 3, 5), "QGemm": (2, 3, 5), "MatMulInteger": (2, 1, 3), "ConvInteger": (2, 1, 3),
            "MatMulIntegerToFloat": (4, 1, 5), "DynamicQuantizeMatMul": (None, 1, 3)}


def with_unsigned_weights(model, int8):
    """
    The model with 128 added to constant int8 weights of products with uint8, and to their zero points. The products
    are the same; kernels of uint8 by uint8 do not saturate. None: there are no such weights.
    """
    new = onnx.ModelProto()
    new.CopyFrom(model)
    values = {t.name: t for t in new.graph.initializer}
    values.update({n.output[0]: a.t for n in new.graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"})

    def typed(node, i, kind):
        return i < len(node.input) and node.input[i] in values and values[node.input[i]].data_type == kind

    def shift(node, i):
        array = numpy_helper.to_array(values[node.input[i]]).astype(np.int16) if i < len(node.input) and node.input[i] else np.int16(0)
        name = f"unsigned_{len(new.graph.initializer)}"
        new.graph.initializer.append(numpy_helper.from_array(np.asarray(array + 128, np.uint8), name))
        node.input.extend([""] * (i + 1 - len(node.input)))
        node.input[i] = name

    found = False
    for node in new.graph.node:
        x, w, zero = PRODUCTS.get(node.op_type, (None, 0, 2))
        if node.op_type not in PRODUCTS and (node.op_type != "DequantizeLinear" or int8):
            continue
        first = x is None or typed(node, x, TensorProto.UINT8) or (x >= len(node.input) and not int8)
        if first and typed(node, w, TensorProto.INT8) and (not "".join(node.input[zero:zero + 1]) or typed(node, zero, TensorProto.INT8)):
            shift(node, w)
            shift(node, zero)
            found = True
    return new.SerializeToString() if found else None


# onnxruntime computes these with tables of sines in float32. An element that is 0 has the error of the others.
NOISE = {"DFT": 2.0 ** -19, "STFT": 2.0 ** -19}
# Their gates are near 1, however small the result is.
RECURRENT = {"LSTM", "GRU", "RNN"}
# Their operands but the first are constants that decide shapes.
CONSTANT_OPERANDS = {"Resize", "Upsample", "Clip", "Pad"}
# Operators whose float results are the same bits everywhere.
SAME_BITS = {"Reshape", "Transpose", "Concat", "Slice", "Split", "Pad", "Squeeze", "Unsqueeze", "Flatten", "Identity", "DepthToSpace", "SpaceToDepth",
             "Expand", "Tile", "Gather", "GatherElements", "GatherND", "Relu", "Abs", "Neg", "Floor", "Ceil", "Round", "Constant", "DequantizeLinear", "Clip",
             "Max", "Min", "MaxPool", "Cast", "Where", "Trilu", "Dropout", "Loop", "If", "Range", "EyeLike", "OneHot", "ConstantOfShape", "TopK", "Unique",
             "Compress", "ReverseSequence", "CenterCropPad", "QuantizeLinear", "DynamicQuantizeLinear"}


def known_shape(shape):
    """The dimensions, or none, so that all elements get the same noise, if shape inference leaves one out."""
    return [d.dim_value for d in shape.dim] if all(d.HasField("dim_value") for d in shape.dim) else []


def disturbed(model, seed):
    """
    The model with the float operands of its nodes multiplied by 1 + noise, element by element. Nodes of NOISE also
    get noise in their results, in proportion to the largest of them.
    """
    rng = np.random.default_rng(seed)
    shaped = onnx.shape_inference.infer_shapes(model).graph
    infos = list(shaped.value_info) + list(shaped.output) + list(shaped.input)
    shapes = {v.name: known_shape(v.type.tensor_type.shape) for v in infos
              if v.type.tensor_type.elem_type == TensorProto.FLOAT and v.type.tensor_type.HasField("shape")}
    shapes.update({t.name: list(t.dims) for t in model.graph.initializer if t.data_type == TensorProto.FLOAT})
    new = onnx.ModelProto()
    new.CopyFrom(model)
    del new.graph.node[:]
    for k, node in enumerate(model.graph.node):
        changed = onnx.NodeProto()
        changed.CopyFrom(node)
        for i, name in enumerate(node.input):
            if node.op_type in SAME_BITS or name not in shapes or (i and node.op_type in CONSTANT_OPERANDS):
                continue
            noise = 1 + rng.choice([-1, 1], shapes[name]) * NOISE.get(node.op_type, 2.0 ** -22)
            new.graph.initializer.append(numpy_helper.from_array(np.asarray(noise, np.float32), f"noise_{k}_{i}"))
            new.graph.node.append(helper.make_node("Mul", [name, f"noise_{k}_{i}"], [f"noisy_{k}_{i}"]))
            changed.input[i] = f"noisy_{k}_{i}"
        new.graph.node.append(changed)
        out = node.output[0]
        if node.op_type in NOISE:
            new.graph.node[-1].output[0] = f"exact_{k}"
            noise = rng.choice([-1, 1]) * 2.0 ** -22
            new.graph.initializer.append(numpy_helper.from_array(np.asarray(noise, np.float32), f"share_{k}"))
            for kind, inputs, result in (("Abs", [f"exact_{k}"], f"size_{k}"), ("ReduceMax", [f"size_{k}"], f"most_{k}"),
                                         ("Mul", [f"most_{k}", f"share_{k}"], f"error_{k}"), ("Add", [f"exact_{k}", f"error_{k}"], out)):
                new.graph.node.append(helper.make_node(kind, inputs, [result]))
    return new


def make_case(seed):
    """(case, graph, how often onnxruntime refused): the first graph of the seed that onnxruntime runs."""
    why = None
    for attempt in range(TRIES):
        g = G.Graph(seed * TRIES + attempt)
        g.grow(g.between(1, 10))
        if not g.nodes or not g.outputs():
            continue
        try:
            case = Case(g.model(), g.feeds, {v.name: v.slack for v in g.values if v.slack}, ops_quant.byte(g) == np.int8)
            return case, g, attempt, why
        except Exception as e:  # pylint: disable=broad-except
            why = str(e).replace("\n", " ")
    return None, None, TRIES, why


def is_fused(model):
    """Whether onnxruntime fuses float operators between bytes, which the interpreter takes as they are."""
    return any(n.op_type == "DequantizeLinear" for n in model.graph.node)


def ways_of(seed, model):
    board = seed % len(BOARDS)
    return (() if is_fused(model) else ((INTERPRETED, board),)) + ((CPU, board), (NPU, board), (NPU_COPIES, board))


def check_seed(seed, runner, folder):
    """A record of the seed for the journal."""
    record = collections.Counter()
    lines = []
    case, g, refused, why = make_case(seed)
    record["refused"] += refused
    if refused and os.environ.get("GRAPHS_REFUSED"):
        lines.append(f"# {seed} onnxruntime: {why}")
    if case is None:
        return record, lines
    record["cases"] += 1
    for node in g.nodes:
        record["op " + node.op_type] += 1
    wrong = sensitive = unlike = False
    for how, board in ways_of(seed, case.model):
        what, (steps, modes) = case.differs(runner, how, board)
        record["npu"] += how == NPU and steps > 0
        record["sparse"] += how == NPU and modes & SPARSE > 0
        if what is None:
            continue
        if "apart" in what and case.sensitive(runner, how, board):
            sensitive = True
        elif without := case.unlike(runner, how, board):
            unlike = True
            lines.append(f"# graph {seed} ({HOW[how]}, {BOARDS[board]}): as onnxruntime without {without}; {what}")
        else:
            wrong = True
            lines.append(f"not ok - graph {seed} ({HOW[how]}, {BOARDS[board]}): {what}" + keep(case, runner, how, board, folder, seed))
            break
    record["wrong"] += wrong
    record["sensitive"] += sensitive and not wrong
    record["unlike"] += unlike and not wrong
    return record, lines


def keep(case, runner, how, board, folder, seed):
    """Reduces a wrong graph and writes it. Returns a description of it."""
    def wrong(model, feeds):
        try:
            small = Case(model, feeds, case.slack, case.int8)
        except Exception:  # pylint: disable=broad-except
            return False
        what = small.differs(runner, how, board)[0]
        return what is not None and not ("apart" in what and small.sensitive(runner, how, board)) and \
            not small.unlike(runner, how, board)

    model, feeds = reduce_model(case.model, case.feeds, wrong, lambda m, f: reference(m.SerializeToString(), f, case.int8))
    path = os.path.join(folder, f"{seed}.onnx")
    onnx.save(model, path)
    np.savez(os.path.join(folder, f"{seed}.npz"), **feeds)
    what = Case(model, feeds, case.slack, case.int8).differs(runner, how, board)[0]
    return f"; {path}: {' '.join(n.op_type for n in model.graph.node)}: {what}"


# ---- many ----

def check_chunks(pipe, runner, folder, dtypes):
    """A worker: takes chunks as (seeds, seeds to leave out), and says which seed it is at."""
    runner = Runner(runner, dtypes)
    while True:
        seeds, aborted = pipe.recv()
        total = collections.Counter(aborted=len(aborted))
        lines = [f"# graph {seed}: onnxruntime aborts" for seed in aborted]
        for seed in seeds:
            pipe.send(seed)
            record, more = check_seed(seed, runner, folder) if seed not in aborted else ({}, [])
            total.update(record)
            lines += more
        pipe.send((seeds[0], dict(total), lines))


class Worker:
    """A process that checks chunks. onnxruntime aborts at some graphs, which ends the process."""

    def __init__(self, args):
        self.args, self.process, self.pipe, self.chunk = args, None, None, None

    def give(self, chunk):
        self.chunk, self.aborted, self.seed = chunk, [], None
        self._send()

    def _send(self):
        if self.process is None:
            self.pipe, other = multiprocessing.Pipe()
            self.process = multiprocessing.Process(target=check_chunks, daemon=True, args=(
                other, self.args.runner, self.args.folder, self.args.dtypes))
            self.process.start()
            other.close()
        self.pipe.send((self.chunk, self.aborted))

    def answer(self):
        """The results of the chunk, or None. A process that ended starts again and leaves its graph out."""
        try:
            got = self.pipe.recv()
        except EOFError:
            self.process.join()
            self.process = None
            if self.seed is None or self.seed in self.aborted:
                raise RuntimeError(f"the worker for graphs {self.chunk[0]} to {self.chunk[-1]} ends") from None
            self.aborted.append(self.seed)
            self._send()
            return None
        if isinstance(got, tuple):
            self.chunk = None
            return got
        self.seed = got
        return None


def results(args, chunks):
    """(first seed, record, lines) of each chunk, in the order in which they are finished."""
    workers, chunks = [Worker(args) for _ in range(args.jobs)], iter(chunks)
    while True:
        for worker in workers:
            if worker.chunk is None and (chunk := next(chunks, None)):
                worker.give(chunk)
        busy = {worker.pipe: worker for worker in workers if worker.chunk}
        if not busy:
            return
        for pipe in multiprocessing.connection.wait(list(busy)):
            got = busy[pipe].answer()
            if got:
                yield got


def version_of(runner):
    """Deletes the results of other files, because results are valid only for the files that made
    them.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    h = hashlib.sha256()
    for path in [runner] + sorted(os.path.join(here, f) for f in os.listdir(here) if f.endswith(".py")):
        with open(path, "rb") as f:
            h.update(f.read())
    return h.hexdigest()[:16]


def run(args):
    version = version_of(args.runner)
    journal = os.path.join(args.folder, f"journal-{version}.jsonl")
    total, done = collections.Counter(), set()
    if os.path.exists(journal):
        with open(journal, encoding="utf-8") as f:
            for line in f:
                first, record, lines = json.loads(line)
                if args.seed <= first < args.seed + args.count:
                    done.add(first)
                    total.update(record)
                    print("\n".join(lines), end="\n" if lines else "")
    chunks = [list(range(s, min(s + CHUNK, args.seed + args.count))) for s in range(args.seed, args.seed + args.count, CHUNK)]
    chunks = [c for c in chunks if c[0] not in done]
    with open(journal, "a", encoding="utf-8") as f:
        for first, record, lines in results(args, chunks):
            f.write(json.dumps([first, record, lines]) + "\n")
            f.flush()
            total.update(record)
            if lines:
                print("\n".join(lines), flush=True)
    return total


def excused_too_often(total):
    """A line for each explanation that holds for more graphs than MOST allows."""
    return [f"not ok - {total[kind]} of {total['cases']} graphs are {kind}, at most {FEW} and {100 * share:g} % may be"
            for kind, share in MOST.items() if total[kind] > FEW + share * total["cases"]]


def check_bounds():
    """The bounds must notice a comparison that excuses a class of graphs."""
    for kind, share in MOST.items():
        most = FEW + int(share * 10000)
        assert not excused_too_often(collections.Counter({"cases": 10000, kind: most}))
        assert len(excused_too_often(collections.Counter({"cases": 10000, kind: most + 1}))) == 1
    assert not excused_too_often(collections.Counter())


def check_noise():
    """onnxruntime must run a disturbed model of which shape inference leaves dimensions out."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Exp", ["r"], ["y"])], "noise",
                              [value("x", TensorProto.FLOAT, [6]), value("s", TensorProto.INT64, [2])], [value("y", TensorProto.FLOAT, None)])
    model = disturbed(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), 1)
    feeds = {"x": np.zeros(6, np.float32), "s": np.array([2, 3])}
    assert reference(model.SerializeToString(), feeds, False)[0].shape == (2, 3)


def main():
    check_bounds()
    check_noise()
    parser = argparse.ArgumentParser()
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--ops", action="store_true", help="print how often each operator was run")
    parser.add_argument("runner")
    parser.add_argument("folder")
    parser.add_argument("count", type=int, nargs="?", default=100000)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    types = subprocess.run([args.runner, "--types"], capture_output=True, text=True, check=True).stdout
    args.dtypes = {int(n): np.dtype(name) for n, name in (line.split() for line in types.splitlines())}
    if args.one:
        record, lines = check_seed(args.count, Runner(args.runner, args.dtypes), args.folder)
        print(dict(record))
        print("\n".join(lines))
        return bool(record["wrong"])
    total = run(args)
    if args.ops:
        for name, n in sorted((k[3:], n) for k, n in total.items() if k.startswith("op ")):
            print(f"{n:8} {name}")
    print(f"figure graphs.cases {total['cases']} graphs")
    print(f"figure graphs.wrong {total['wrong']} graphs")
    print(f"figure graphs.npu {total['npu']} graphs")
    print(f"figure graphs.sparse {total['sparse']} graphs")
    print(f"figure graphs.sensitive {total['sensitive']} graphs")
    print(f"figure graphs.unlike {total['unlike']} graphs")
    print(f"figure graphs.aborted {total['aborted']} graphs")
    print(f"figure graphs.operators {sum(k.startswith('op ') for k in total)} operators")
    excused = excused_too_often(total)
    print("\n".join(excused), end="\n" if excused else "")
    return total["wrong"] > 0 or not total["cases"] or bool(excused)


if __name__ == "__main__":
    sys.exit(main())
