# SPDX-License-Identifier: MIT
"""The table of evaluations: results of the C evaluator for every backbone, circuit and length.

Text, a record on each line, fields separated by one tab:

    rivulet-rrsc  1
    space     NAME
    board     NAME SHA256                       of the board file
    data      SHA256 SHA256                     of images and labels
    floor     PERCENT                           cells below it may be measured on few images
    late      SECONDS                           cells slower than that at the first level are not measured: 0 images
    level     NAME NUMBER HZ                    one for each level, fastest first
    backbone  NAME SHA256 MACS                  of its ONNX file
    cell      BACKBONE CIRCUIT LENGTH IMAGES RIGHT CYCLES JOULE...    joule of an inference at each level
    end       CELLS
"""
import dataclasses
import itertools
import os

import space as spaces

MAGIC, VERSION = "rivulet-rrsc", "1"
MAX_BYTES = 4 << 20


class TableError(ValueError):
    """An error with file and line."""


@dataclasses.dataclass(frozen=True)
class Cell:
    images: int
    right: int
    cycles: int
    joule: tuple

    @property
    def accuracy(self):
        """In percent; 0 if the cell was not measured."""
        return 100 * self.right / self.images if self.images else 0.0


@dataclasses.dataclass
class Table:
    space: str
    board: tuple = ("", "")
    data: tuple = ("", "")
    floor: float = 0.0
    late: float = 0.0
    levels: list = dataclasses.field(default_factory=list)      # (name, number, hz)
    backbones: dict = dataclasses.field(default_factory=dict)   # name: (sha256, macs)
    cells: dict = dataclasses.field(default_factory=dict)       # (backbone, circuit, length): Cell

    def complete(self, space):
        """Raises TableError if a cell of the space is missing, or if the levels differ."""
        if self.space != space.name:
            raise TableError(f"a table of {self.space}, not of {space.name}")
        have, want = [(name, number) for name, number, _ in self.levels], list(spaces.LEVELS)
        if have != want:
            raise TableError(f"levels {have}, not {want}")
        for key in itertools.product(space.backbones(), spaces.CIRCUITS, spaces.LENGTHS):
            if key not in self.cells:
                raise TableError("no cell for {} {} {}".format(*key))


def _number(kind, least, text):
    try:
        value = kind(text)
    except ValueError:
        raise TableError(f'"{text}" is no number') from None
    if not least <= value < 1e18:   # NaN and infinity are not either
        raise TableError(f"{text} is out of range")
    return value


def _sha(text):
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise TableError(f'"{text}" is no SHA-256')
    return text


def _cell(table, f):
    if f[0] not in table.backbones:
        raise TableError(f'"{f[0]}" is no backbone of this table')
    images, right, cycles = _number(int, 0, f[3]), _number(int, 0, f[4]), _number(int, 1, f[5])
    key = (f[0], f[1], _number(int, 1, f[2]))
    if not images and cycles / table.levels[0][2] <= table.late:
        raise TableError(f"{key[0]} {key[1]} {key[2]} is not late, and not measured")
    if right > images:
        raise TableError(f"{right} right of {images} images")
    if key in table.cells:
        raise TableError(f"a second cell for {key[0]} {key[1]} {key[2]}")
    joule = tuple(_number(float, 1e-15, j) for j in f[6:])
    table.cells[key] = Cell(images, right, cycles, joule)


def _record(table, kind, f):
    wanted = {"board": 2, "data": 2, "floor": 1, "late": 1, "level": 3, "backbone": 3, "cell": 6 + len(table.levels)}.get(kind)
    if wanted is None:
        raise TableError(f'"{kind}" is no record')
    if len(f) != wanted:
        raise TableError(f"{kind}: {len(f)} fields, {wanted} are required")
    if kind == "board":
        table.board = (f[0], _sha(f[1]))
    elif kind == "data":
        table.data = (_sha(f[0]), _sha(f[1]))
    elif kind == "floor":
        table.floor = _number(float, 0, f[0])
    elif kind == "late":
        table.late = _number(float, 0, f[0])
    elif kind == "level":
        if table.cells:
            raise TableError("a level behind the first cell")
        table.levels.append((f[0], _number(int, 0, f[1]), _number(int, 1, f[2])))
    elif kind == "backbone":
        if f[0] in table.backbones:
            raise TableError(f"a second backbone {f[0]}")
        table.backbones[f[0]] = (_sha(f[1]), _number(int, 1, f[2]))
    elif not table.levels:
        raise TableError("a cell before the first level")
    else:
        _cell(table, f)


def parse(text, name="table"):
    """A Table of text, or TableError with the line."""
    lines = text.split("\n")
    if lines[0] != f"{MAGIC}\t{VERSION}":
        raise TableError(f"{name}:1: not a {MAGIC} table of version {VERSION}")
    if len(lines) < 2 or not lines[1].startswith("space\t"):
        raise TableError(f"{name}:2: the name of the space is expected here")
    table, ended = Table(lines[1].split("\t", 1)[1]), False
    for at, line in enumerate(lines[2:], 3):
        if ended:
            if line:
                raise TableError(f"{name}:{at}: something behind the end")
            continue
        kind, *fields = line.split("\t")
        try:
            if kind == "end":
                if fields != [str(len(table.cells))]:
                    raise TableError(f"{len(table.cells)} cells, the end says {' '.join(fields) or 'nothing'}")
                ended = True
            else:
                _record(table, kind, fields)
        except TableError as e:
            raise TableError(f"{name}:{at}: {e}") from None
    if not ended:
        raise TableError(f"{name}:{len(lines)}: no end: the file is cut off")
    return table


def load(path):
    if os.path.getsize(path) > MAX_BYTES:
        raise TableError(f"{path}: larger than {MAX_BYTES} bytes")
    with open(path, encoding="ascii", errors="replace") as f:
        return parse(f.read(), str(path))


def text(t):
    """The text that parse() reads."""
    rows = [(MAGIC, VERSION), ("space", t.space), ("board", *t.board), ("data", *t.data), ("floor", f"{t.floor:g}"),
            ("late", repr(t.late))]
    rows += [("level", *level) for level in t.levels]
    rows += [("backbone", name, *b) for name, b in t.backbones.items()]
    rows += [("cell", *key, c.images, c.right, c.cycles, *(repr(j) for j in c.joule)) for key, c in t.cells.items()]
    rows.append(("end", len(t.cells)))
    return "".join("\t".join(map(str, r)) + "\n" for r in rows)


def replace(path, data):
    """Replaces a file atomically."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise
