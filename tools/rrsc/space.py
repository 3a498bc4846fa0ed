# SPDX-License-Identifier: MIT
"""The search space: a backbone, a circuit and a bitstream length for each V/F level; 40,960 points for each network.

A point is a tuple of choices, one number for each decision, in the order of Space.decisions.
"""
import dataclasses
import itertools
import math

# xnor-mux is omitted, because its accuracy is that of guessing at every length (make eval-sc).
CIRCUITS = ("and-bin", "and-loop", "and-acc", "and-sep", "ugemm")
# Accuracy is not monotone in the length: 17, 25 and 33 (8m + 1) and 13 do well, and 20 is worse than 17.
LENGTHS = (13, 17, 20, 25, 33, 45, 64, 96)
# V/F levels by their name in RR-SC and their number in the board file, fastest first.
LEVELS = (("l6", 5), ("l4", 3), ("l3", 2))


@dataclasses.dataclass(frozen=True)
class Config:
    """The named choices of a point: lengths in bits, fastest level first."""
    backbone: str
    circuit: str
    lengths: tuple

    def __str__(self):
        return f"{self.backbone} {self.circuit} {'/'.join(map(str, self.lengths))}"


@dataclasses.dataclass(frozen=True)
class Space:
    name: str
    shape: tuple        # of the backbone: (decision, options)
    pattern: str        # a backbone's name from its options
    reference: str      # its latency at LENGTH_OF_TC bits and the fastest level is the time constraint
    accuracy: tuple     # least accuracy at each level, in percent
    epochs: int         # of training a backbone

    @property
    def decisions(self):
        return (self.shape + (("circuit", CIRCUITS),) +
                tuple((f"length.{name}", LENGTHS) for name, _ in LEVELS))

    @property
    def options(self):
        return [len(o) for _, o in self.decisions]

    @property
    def size(self):
        return math.prod(self.options)

    def backbones(self):
        """{name: options} of every backbone, in order."""
        return {self.pattern.format(*o): o for o in itertools.product(*(o for _, o in self.shape))}

    def points(self):
        return itertools.product(*(range(n) for n in self.options))

    def check(self, point):
        """Raises ValueError if this is no point of the space."""
        if len(point) != len(self.options):
            raise ValueError(f"{self.name}: {len(point)} choices for {len(self.options)} decisions")
        for (name, options), choice in zip(self.decisions, point):
            if not isinstance(choice, int) or not 0 <= choice < len(options):
                raise ValueError(f"{self.name}: choice {choice!r} of {name}, which has {len(options)} options")

    def config(self, point):
        self.check(point)
        chosen = [options[c] for (_, options), c in zip(self.decisions, point)]
        n = len(self.shape)
        return Config(self.pattern.format(*chosen[:n]), chosen[n], tuple(chosen[n + 1:]))

    def index(self, point):
        """Mixed radix, the last decision fastest: the position in points()."""
        self.check(point)
        at = 0
        for choice, n in zip(point, self.options):
            at = at * n + choice
        return at

    def point(self, index):
        if not 0 <= index < self.size:
            raise ValueError(f"{self.name}: no point {index} of {self.size}")
        out = []
        for n in reversed(self.options):
            index, choice = divmod(index, n)
            out.append(choice)
        return tuple(reversed(out))


SPACES = {
    "mlp": Space("mlp", (("hidden1", (64, 100, 128, 200)), ("hidden2", (32, 64, 100, 128))),
                 "784-{}-{}-10", "784-200-32-10", (87.0, 84.0, 79.0), 6),
    "lenet": Space("lenet", (("kernel1", (3, 5)), ("channels1", (4, 6)), ("kernel2", (5, 7)), ("channels2", (32, 64))),
                   "k{}c{}-k{}c{}", "k3c6-k7c64", (84.0, 80.0, 75.0), 4),
}
# The time constraint: this factor times the time of the reference backbone at this length.
LENGTH_OF_TC, SLACK_OF_TC = 64, 1.005
