# SPDX-License-Identifier: MIT
"""Asks the C evaluator: right answers by `rivulet eval`, cycles and energy by `rivulet explain`.

Every result is cached under the hash of its inputs, the program included, so an interrupted run continues where it
stopped.
"""
import gzip
import hashlib
import json
import pathlib
import re
import subprocess

import space as spaces
import table as tables

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
BOARD = TOP / "sim/boards/sc-edge.board"
TOOL = TOP / "build/rivulet"
CACHE = TOP / "build/rrsc/cache"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


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


def backbones_of(space, folder):
    """{name: file} of the backbones of a space, which must be there."""
    found = {name: folder / f"{name}.onnx" for name in space.backbones()}
    for model in found.values():
        if not model.exists():
            raise SystemExit(f"{model} is missing: make it (tools/rrsc/backbones.py)")
    return found


def add_arguments(ap):
    """The arguments that both programs have."""
    ap.add_argument("--tool", type=pathlib.Path, default=TOOL)
    ap.add_argument("--cache", type=pathlib.Path, default=CACHE)
