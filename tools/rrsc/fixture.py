# SPDX-License-Identifier: MIT
"""Synthetic tables for the tests, with accuracies by a formula, so that the best point is known."""
import space as spaces
import table as tables

HZ = {"l6": 1400000000, "l4": 1000000000, "l3": 800000000}
VOLT = {"l6": 1.275, "l4": 1.1, "l3": 1.1}
SHA = "0" * 64
LOSS = {"and-bin": 0.0, "and-loop": 0.5, "and-acc": 4.0, "and-sep": 40.0, "ugemm": 20.0}


def macs(options):
    return 784 * options[0] + options[0] * options[1] + options[1] * 10


def accuracies(space):
    t = tables.Accuracies(space.name, (SHA, SHA), min(space.accuracy))
    for name, options in space.backbones().items():
        t.backbones[name] = (SHA, macs(options))
    for name, circuit, length in tables.keys(space):
        right = 89 + t.backbones[name][1] / 1e5 - 60 / length * (1 if length % 8 == 1 else 1.6) - LOSS[circuit]
        t.cells[name, circuit, length] = tables.Answers(1000, round(10 * right))
    return t


def costs(space):
    t, names = tables.Costs(space.name, ("made-up", SHA)), space.backbones()
    t.levels = [(name, number, HZ[name]) for name, number in spaces.LEVELS]
    t.late = 1.005 * 20 * spaces.LENGTH_OF_TC * macs(names[space.reference]) / HZ["l6"]
    for name, circuit, length in tables.keys(space):
        cycles = 20 * length * macs(names[name])
        t.cells[name, circuit, length] = tables.Cost(cycles, tuple(1e-12 * cycles * VOLT[v] ** 2 for v, _ in spaces.LEVELS))
    return t


def synthetic(space):
    return tables.Table(space, accuracies(space), costs(space))
