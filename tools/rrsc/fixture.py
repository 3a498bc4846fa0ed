# SPDX-License-Identifier: MIT
"""A synthetic table for the tests, with accuracies by a formula, so that the best point is known."""
import space as spaces
import table as tables

HZ = {"l6": 1400000000, "l4": 1000000000, "l3": 800000000}
VOLT = {"l6": 1.275, "l4": 1.1, "l3": 1.1}
SHA = "0" * 64
LOSS = {"and-bin": 0.0, "and-loop": 0.5, "and-acc": 4.0, "and-sep": 40.0, "ugemm": 20.0}


def macs(options):
    return 784 * options[0] + options[0] * options[1] + options[1] * 10


def synthetic(space):
    t = tables.Table(space.name, ("made-up", SHA), (SHA, SHA), min(space.accuracy))
    t.levels = [(name, number, HZ[name]) for name, number in spaces.LEVELS]
    names = space.backbones()
    t.late = 1.005 * 20 * spaces.LENGTH_OF_TC * macs(names[space.reference]) / HZ["l6"]
    for name, options in names.items():
        t.backbones[name] = (SHA, macs(options))
        for circuit in spaces.CIRCUITS:
            for length in spaces.LENGTHS:
                cycles = 20 * length * macs(options)
                right = round(10 * (89 + macs(options) / 1e5 - 60 / length * (1 if length % 8 == 1 else 1.6) - LOSS[circuit]))
                late = cycles / HZ["l6"] > t.late
                t.cells[name, circuit, length] = tables.Cell(0 if late else 1000, 0 if late else right, cycles,
                                                             tuple(1e-12 * cycles * VOLT[v] ** 2 for v, _ in spaces.LEVELS))
    return t
