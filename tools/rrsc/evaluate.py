# SPDX-License-Identifier: MIT
"""Makes the table of a space: accuracies by `rivulet eval`, cycles and energies by `rivulet explain`.

    python tools/rrsc/evaluate.py mlp --backbones build/rrsc -o tools/rrsc/mlp.table

Needs the standard library only. Every result is cached under the hash of its inputs, the program included, so an
interrupted run continues where it stopped. A cell is measured in three steps with a growing number of images, and a
step is omitted if the accuracy is 3 standard deviations below the lowest one that the space requires.
"""
import argparse
import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time

import space as spaces
import table as tables

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BOARD = TOP / "sim/boards/sc-edge.board"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
# Images of each step, and by how many points a cell may be below the floor to continue. Plans use images 0..4999.
STEPS = ((50, 18.0), (200, 9.0))
# Images of the last step: circuits with state in every cycle take a hundred times as long to simulate.
LAST = {"mlp": {"ugemm": 400}, "lenet": {"and-acc": 400, "and-sep": 400, "ugemm": 400}}
LAST_OF_OTHERS = {"mlp": 2000, "lenet": 1000}


def steps_of(space, circuit):
    return (*STEPS, (LAST[space].get(circuit, LAST_OF_OTHERS[space]), None))


def digest(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(len(p).to_bytes(8, "little") + p)
    return h.hexdigest()


def of_file(path):
    """SHA-256 of the uncompressed content of a file."""
    data = path.read_bytes()
    return hashlib.sha256(gzip.decompress(data) if path.suffix == ".gz" else data).hexdigest()


class Evaluator:
    """Runs the tool and caches its results."""

    def __init__(self, tool, cache, images=DATA / "t10k-images-idx3-ubyte.gz", labels=DATA / "t10k-labels-idx1-ubyte.gz",
                 threads=1):
        self.tool, self.cache, self.threads = tool, cache, threads
        self.images, self.labels = images, labels
        self.program = tool.read_bytes()
        self.data = (of_file(images), of_file(labels))
        cache.mkdir(parents=True, exist_ok=True)

    def _ask(self, verb, model, *args):
        """The tool's JSON for a model. Arguments of type bytes enter the cache key only."""
        key = digest(self.program, verb.encode(), model.read_bytes(), *(a if isinstance(a, bytes) else a.encode() for a in args))
        kept = self.cache / f"{key}.json"
        if kept.exists():
            return json.loads(kept.read_bytes())
        words = [str(self.tool), verb, str(model), "--json"] + [a for a in args if isinstance(a, str)]
        got = self.run(words)
        tables.replace(kept, got)
        return json.loads(got)

    def run(self, words):
        """The standard output of a command."""
        got = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if got.returncode:
            raise SystemExit(f"{' '.join(words)}: {got.stderr.decode().strip() or got.returncode}")
        return got.stdout

    def right(self, model, circuit, lengths, count):
        """{length: right answers of the first count images}, and the products per image."""
        reply = self._ask("eval", model, "--data", str(self.images), "--labels", str(self.labels), "--count", str(count),
                         "--circuit", circuit, "--length", ",".join(map(str, lengths)), "--threads", str(self.threads),
                         "".join(self.data).encode())
        if reply["examples"] != count:
            raise SystemExit(f"{self.images}: {reply['examples']} images, {count} are required")
        return {r["length"]: r["right"] for r in reply["results"] if r["circuit"] == circuit}, reply["macs"]

    def cost(self, model, board, length):
        """The tool's rows by level: hz, cycles, joule per inference."""
        reply = self._ask("explain", model, "--board", str(board), "--mode", "sc", "--length", str(length), board.read_bytes())
        return reply["explain"]["levels"]


def boards(board, folder):
    """A board file for each circuit, with its coefficients as those of AND-BIN, which programs use."""
    folder.mkdir(parents=True, exist_ok=True)
    text, out = board.read_text(), {}
    for circuit in spaces.CIRCUITS:
        edited = text
        for what in ("mcycles", "fj"):
            value = re.search(rf"^sc_{circuit.replace('-', '_')}_{what} = (\d+)$", text, re.M)
            if not value:
                raise SystemExit(f"{board}: no sc_{circuit.replace('-', '_')}_{what}")
            edited = re.sub(rf"^(sc_and_bin_{what} = )\d+$", rf"\g<1>{value[1]}", edited, flags=re.M)
        out[circuit] = folder / f"{circuit}.board"
        out[circuit].write_text(edited)
    return out


def accuracies(ev, model, circuit, lengths, floor, steps):
    """{length: (images, right)} of one backbone and circuit."""
    left, out = lengths, {}
    for count, slack in steps:
        if not left:
            break
        right, _ = ev.right(model, circuit, left, count)
        out.update({n: (count, right[n]) for n in left})
        left = [n for n in left if slack is None or 100 * right[n] / count >= floor - slack]
    return out


def add_cells(ev, t, name, model, circuit, board, steps):
    """The cells of one backbone and circuit."""
    rows = {n: ev.cost(model, board, n) for n in spaces.LENGTHS}
    fastest = spaces.LEVELS[0][1]
    soon = [n for n in spaces.LENGTHS if rows[n][fastest]["cycles"] / rows[n][fastest]["hz"] <= t.late]
    found = accuracies(ev, model, circuit, soon, t.floor, steps)
    for n in spaces.LENGTHS:
        t.cells[name, circuit, n] = tables.Cell(*found.get(n, (0, 0)), rows[n][fastest]["cycles"],
                                                tuple(rows[n][level]["joule"] for _, level in spaces.LEVELS))


def start_table(ev, space, folder, board, of_circuit):
    """The head of a table, without cells."""
    rows = ev.cost(folder / f"{space.reference}.onnx", of_circuit["and-bin"], spaces.LENGTH_OF_TC)
    t = tables.Table(space.name, (board.stem, of_file(board)), ev.data, min(space.accuracy))
    t.levels = [(level, n, rows[n]["hz"]) for level, n in spaces.LEVELS]
    t.late = spaces.SLACK_OF_TC * rows[spaces.LEVELS[0][1]]["seconds"]
    for name in space.backbones():
        model = folder / f"{name}.onnx"
        t.backbones[name] = (of_file(model), ev.right(model, "and-bin", [spaces.LENGTH_OF_TC], 1)[1])
    return t


def make(ev, space, folder, board, log=sys.stderr):
    """The table of a space whose backbones are folder/NAME.onnx."""
    names = list(space.backbones())
    for name in names:
        if not (folder / f"{name}.onnx").exists():
            raise SystemExit(f"{folder / name}.onnx is missing: train it (tools/rrsc/backbones.py)")
    of_circuit, start = boards(board, ev.cache / "boards"), time.monotonic()
    t = start_table(ev, space, folder, board, of_circuit)
    todo = len(names) * len(spaces.CIRCUITS) * len(spaces.LENGTHS)
    for circuit in spaces.CIRCUITS:
        for name in names:
            add_cells(ev, t, name, folder / f"{name}.onnx", circuit, of_circuit[circuit], steps_of(space.name, circuit))
            print(f"{space.name} {name} {circuit}: {len(t.cells)} of {todo} cells, {time.monotonic() - start:.0f} s",
                  file=log, flush=True)
    return t


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("space", choices=list(spaces.SPACES))
    ap.add_argument("--backbones", type=pathlib.Path, required=True, help="folder of SPACE/NAME.onnx")
    ap.add_argument("-o", "--output", type=pathlib.Path, required=True, help="the table")
    ap.add_argument("--tool", type=pathlib.Path, default=TOP / "build/rivulet")
    ap.add_argument("--board", type=pathlib.Path, default=BOARD)
    ap.add_argument("--cache", type=pathlib.Path, default=TOP / "build/rrsc/cache")
    ap.add_argument("--threads", type=int, default=1)
    opt = ap.parse_args()
    space = spaces.SPACES[opt.space]
    ev = Evaluator(opt.tool, opt.cache, threads=opt.threads)
    t = make(ev, space, opt.backbones / space.name, opt.board)
    t.complete(space)
    tables.replace(opt.output, tables.text(t).encode())
    print(f"wrote {opt.output}: {len(t.cells)} cells", file=sys.stderr)


if __name__ == "__main__":
    main()
