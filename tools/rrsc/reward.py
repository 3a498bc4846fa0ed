# SPDX-License-Identifier: MIT
"""The reward of RR-SC with two corrections, and the exhaustive search that uses it.

Runs = sum over levels of share / energy, and Rrs = Runs / Runs_max. The reward of a point that is
late or too inaccurate at some level is -1 + Rrs. The reward of any other point is the mean of
(A - Al) / (Au - Al), plus Rrs, minus a penalty if a slower level is more accurate than a faster
one.

The corrections: (a) -1 + Rrs can reach the reward of a feasible point. Therefore feasible points
always rank before infeasible ones, and a search that finds none reports that. (b) The comparison
A > A' fails on ties and on measurement noise. Therefore only a difference above `epsilon` counts as
more accurate.
"""
import dataclasses

import space as spaces


@dataclasses.dataclass(frozen=True)
class Rules:
    accuracy: tuple             # minimum in percent, fastest level first
    constraint: float           # seconds
    upper: float = 90.0         # Au
    lower: float = 60.0         # Al
    penalty: float = 0.2        # pen
    epsilon: float = 0.25       # points
    shares: tuple = (1 / 3, 1 / 3, 1 / 3)   # of the battery: TE

    def __post_init__(self):
        if not self.lower < self.upper:
            raise ValueError("Au must be above Al")
        if len(self.shares) != len(self.accuracy) or min(self.shares) <= 0:
            raise ValueError("one share above 0 for each level")
        if not self.constraint > 0 or self.penalty < 0 or self.epsilon < 0:
            raise ValueError("the time constraint is above 0, penalty and epsilon are not below")


@dataclasses.dataclass(frozen=True)
class Outcome:
    feasible: bool
    reward: float
    runs: float             # of a charge of 1 J
    accuracy: tuple
    latency: tuple
    why: str                # the first constraint that is violated; empty if feasible

    @property
    def rank(self):
        return (self.feasible, self.reward)


class Judge:
    """Outcomes of the points of a space, computed from a table and rules."""

    def __init__(self, space, table, rules):
        if len(rules.accuracy) != len(table.levels):
            raise ValueError(f"{len(rules.accuracy)} accuracies for {len(table.levels)} levels")
        if min(rules.accuracy) < table.floor:
            raise ValueError(f"accuracies below {table.floor:g} % were not measured on all images")
        self.space, self.table, self.rules = space, table, rules
        self.hz = [hz for _, _, hz in table.levels]
        # Runs_max: the cheapest cell of each level, i.e. the shortest streams of the smallest backbone.
        self.runs_max = sum(share / min(c.joule[i] for c in table.cells.values())
                            for i, share in enumerate(rules.shares))

    def judge(self, config):
        r = self.rules
        cells = [self.table.cells[config.backbone, config.circuit, n] for n in config.lengths]
        latency = tuple(c.cycles / hz for c, hz in zip(cells, self.hz))
        accuracy = tuple(c.accuracy for c in cells)
        runs = sum(share / c.joule[i] for i, (c, share) in enumerate(zip(cells, r.shares)))
        rrs = min(1.0, runs / self.runs_max)
        why = self._why(latency, accuracy)
        if why:
            return Outcome(False, -1 + rrs, runs, accuracy, latency, why)
        reward = sum((a - r.lower) / (r.upper - r.lower) for a in accuracy) / len(accuracy) + rrs
        if any(accuracy[j] > a + r.epsilon for i, a in enumerate(accuracy) for j in range(i + 1, len(accuracy))):
            reward -= r.penalty
        return Outcome(True, reward, runs, accuracy, latency, "")

    def _why(self, latency, accuracy):
        """The first constraint that is violated: time, then accuracy."""
        r = self.rules
        for (name, _, _), t in zip(self.table.levels, latency):
            if t > r.constraint:
                return f"{1e3 * t:.1f} ms at {name}, {1e3 * r.constraint:.1f} ms are allowed"
        for (name, _, _), a, least in zip(self.table.levels, accuracy, r.accuracy):
            if a < least:
                return f"{a:.2f} % at {name}, {least:g} % are required"
        return ""

    def of(self, point):
        return self.judge(self.space.config(point))


def rules_of(space, table, **other):
    """The space's own constraints."""
    return Rules(**{"accuracy": space.accuracy, "constraint": table.late, **other})


def exhaustive(judge):
    """(best point, its outcome, all rewards by index, number of feasible points)."""
    best, outcome, rewards, feasible = None, None, [], 0
    for point in judge.space.points():
        o = judge.of(point)
        rewards.append(o.rank)
        feasible += o.feasible
        if outcome is None or o.rank > outcome.rank:
            best, outcome = point, o
    return best, outcome, rewards, feasible
