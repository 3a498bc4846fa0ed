# SPDX-License-Identifier: MIT
"""The two tables of a space: what its cells get right, and what they cost.

Right answers depend on the weights of a backbone, the circuit and the length, cycles and energy on the shapes of the
backbone, the board and the compiler. Therefore each has a file of its own and is measured without the other.
Text, a record on each line, fields separated by one tab:

    rivulet-rrsc-accuracy  1                    NAME.accuracy, by accuracies.py
    space     NAME
    data      SHA256 SHA256                     of images and labels
    floor     PERCENT                           cells below it may be measured on few images
    backbone  NAME SHA256 MACS                  of its ONNX file
    cell      BACKBONE CIRCUIT LENGTH IMAGES RIGHT      0 images: not measured, because it cannot be on time
    end       CELLS

    rivulet-rrsc-cost  1                        NAME.cost, by costs.py
    space     NAME
    board     NAME SHA256                       of the board file
    late      SECONDS                           the time constraint of the space
    level     NAME NUMBER HZ                    one for each level, fastest first
    cell      BACKBONE CIRCUIT LENGTH CYCLES JOULE...     joule of an inference at each level
    end       CELLS
"""
import dataclasses
import itertools
import os

import space as spaces

VERSION = "1"
MAX_BYTES = 4 << 20


class TableError(ValueError):
    """An error with file and line."""


def number(kind, least, text):
    try:
        value = kind(text)
    except ValueError:
        raise TableError(f'"{text}" is no number') from None
    if not least <= value < 1e18:   # NaN and infinity are not either
        raise TableError(f"{text} is out of range")
    return value


def sha(text):
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise TableError(f'"{text}" is no SHA-256')
    return text


def fields_of(kind, fields, wanted):
    if len(fields) != wanted:
        raise TableError(f"{kind}: {len(fields)} fields, {wanted} are required")


def add(cells, key, cell):
    if key in cells:
        raise TableError("a second cell for {} {} {}".format(*key))
    cells[key] = cell


@dataclasses.dataclass(frozen=True)
class Answers:
    images: int
    right: int


@dataclasses.dataclass
class Accuracies:
    """NAME.accuracy."""
    MAGIC = "rivulet-rrsc-accuracy"
    space: str
    data: tuple = ("", "")
    floor: float = 0.0
    backbones: dict = dataclasses.field(default_factory=dict)   # name: (sha256, macs)
    cells: dict = dataclasses.field(default_factory=dict)       # (backbone, circuit, length): Answers

    def record(self, kind, f):
        if kind == "data":
            fields_of(kind, f, 2)
            self.data = (sha(f[0]), sha(f[1]))
        elif kind == "floor":
            fields_of(kind, f, 1)
            self.floor = number(float, 0, f[0])
        elif kind == "backbone":
            fields_of(kind, f, 3)
            if f[0] in self.backbones:
                raise TableError(f"a second backbone {f[0]}")
            self.backbones[f[0]] = (sha(f[1]), number(int, 1, f[2]))
        elif kind == "cell":
            fields_of(kind, f, 5)
            self._cell(f)
        else:
            raise TableError(f'"{kind}" is no record')

    def _cell(self, f):
        if f[0] not in self.backbones:
            raise TableError(f'"{f[0]}" is no backbone of this table')
        images, right = number(int, 0, f[3]), number(int, 0, f[4])
        if right > images:
            raise TableError(f"{right} right of {images} images")
        add(self.cells, (f[0], f[1], number(int, 1, f[2])), Answers(images, right))

    def rows(self):
        rows = [("data", *self.data), ("floor", f"{self.floor:g}")]
        rows += [("backbone", name, *b) for name, b in self.backbones.items()]
        return rows + [("cell", *key, c.images, c.right) for key, c in self.cells.items()]


@dataclasses.dataclass(frozen=True)
class Cost:
    cycles: int
    joule: tuple


@dataclasses.dataclass
class Costs:
    """NAME.cost."""
    MAGIC = "rivulet-rrsc-cost"
    space: str
    board: tuple = ("", "")
    late: float = 0.0
    levels: list = dataclasses.field(default_factory=list)      # (name, number, hz)
    cells: dict = dataclasses.field(default_factory=dict)       # (backbone, circuit, length): Cost

    def record(self, kind, f):
        if kind == "board":
            fields_of(kind, f, 2)
            self.board = (f[0], sha(f[1]))
        elif kind == "late":
            fields_of(kind, f, 1)
            self.late = number(float, 0, f[0])
        elif kind == "level":
            fields_of(kind, f, 3)
            if self.cells:
                raise TableError("a level behind the first cell")
            self.levels.append((f[0], number(int, 0, f[1]), number(int, 1, f[2])))
        elif kind == "cell":
            if not self.levels:
                raise TableError("a cell before the first level")
            fields_of(kind, f, 4 + len(self.levels))
            add(self.cells, (f[0], f[1], number(int, 1, f[2])),
                Cost(number(int, 1, f[3]), tuple(number(float, 1e-15, j) for j in f[4:])))
        else:
            raise TableError(f'"{kind}" is no record')

    def rows(self):
        rows = [("board", *self.board), ("late", repr(self.late))]
        rows += [("level", *level) for level in self.levels]
        return rows + [("cell", *key, c.cycles, *(repr(j) for j in c.joule)) for key, c in self.cells.items()]


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


class Table:
    """Both tables of a space: every cell of the space with what it gets right and what it costs."""

    def __init__(self, space, accuracies, costs):
        """
        Raises TableError if a cell of the space is missing in either, if one that is on time was not measured, or if
        the levels differ.
        """
        self.accuracies, self.costs, self.cells = accuracies, costs, {}
        self.levels, self.late, self.floor = costs.levels, costs.late, accuracies.floor
        for part in (accuracies, costs):
            if part.space != space.name:
                raise TableError(f"a table of {part.space}, not of {space.name}")
        have, want = [(name, n) for name, n, _ in costs.levels], list(spaces.LEVELS)
        if have != want:
            raise TableError(f"levels {have}, not {want}")
        for key in keys(space):
            for part in (accuracies, costs):
                if key not in part.cells:
                    raise TableError("no cell for {} {} {} in the table of {}".format(*key, part.MAGIC.rpartition("-")[2]))
            answers, cost = accuracies.cells[key], costs.cells[key]
            if not answers.images and cost.cycles / costs.levels[0][2] <= costs.late:
                raise TableError("{} {} {} is on time, and its accuracy was not measured".format(*key))
            self.cells[key] = Cell(answers.images, answers.right, cost.cycles, cost.joule)


def keys(space):
    """Every cell of a space."""
    return itertools.product(space.backbones(), spaces.CIRCUITS, spaces.LENGTHS)


def parse(kind, text, name="table"):
    """A table of class `kind` of text, or TableError with the line."""
    lines = text.split("\n")
    if lines[0] != f"{kind.MAGIC}\t{VERSION}":
        raise TableError(f"{name}:1: not a {kind.MAGIC} table of version {VERSION}")
    if len(lines) < 2 or not lines[1].startswith("space\t"):
        raise TableError(f"{name}:2: the name of the space is expected here")
    table, ended = kind(lines[1].split("\t", 1)[1]), False
    for at, line in enumerate(lines[2:], 3):
        if ended:
            if line:
                raise TableError(f"{name}:{at}: something behind the end")
            continue
        record, *fields = line.split("\t")
        try:
            if record == "end":
                if fields != [str(len(table.cells))]:
                    raise TableError(f"{len(table.cells)} cells, the end says {' '.join(fields) or 'nothing'}")
                ended = True
            else:
                table.record(record, fields)
        except TableError as e:
            raise TableError(f"{name}:{at}: {e}") from None
    if not ended:
        raise TableError(f"{name}:{len(lines)}: no end: the file is cut off")
    return table


def text(table):
    """The text that parse() reads."""
    rows = [(table.MAGIC, VERSION), ("space", table.space), *table.rows(), ("end", len(table.cells))]
    return "".join("\t".join(map(str, r)) + "\n" for r in rows)


def load_part(kind, path):
    if os.path.getsize(path) > MAX_BYTES:
        raise TableError(f"{path}: larger than {MAX_BYTES} bytes")
    with open(path, encoding="ascii", errors="replace") as f:
        return parse(kind, f.read(), str(path))


def load(space, folder):
    """The Table of folder/NAME.accuracy and folder/NAME.cost."""
    return Table(space, load_part(Accuracies, folder / f"{space.name}.accuracy"),
                 load_part(Costs, folder / f"{space.name}.cost"))


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
