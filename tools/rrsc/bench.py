# SPDX-License-Identifier: MIT
"""Compares reinforcement learning with exhaustive and with random search on the committed tables.

    python3 tools/rrsc/bench.py --tool build/rivulet

20 seeds, 5 restarts of 400 evaluations; random search evaluates 2,000 different points. Exits with 1
if fewer than 18 seeds reach 99 % of the optimum, if the median is not above that of random search,
or if the C evaluator's result differs from the tables: right answers of the best backbone (found/NAME.onnx), and all
costs.
"""
import argparse
import dataclasses
import pathlib
import statistics
import sys
import tempfile
import time

import torch

import accuracies
import costs
import evaluate
import reward
import search
import shapes
import space as spaces
import table as tables
from controller import Settings

SPACES = (("mlp", ""), ("lenet", "lenet."))
SEEDS, REACHED, LEAST = list(range(1, 21)), 0.99, 18


def say(name, value, unit):
    print(f"figure rrsc.{name} {value} {unit}", flush=True)


def bench(space, prefix):
    """Prints a space's figures. Returns whether they meet the bars."""
    table, settings = tables.load(space, search.HERE), Settings()
    judge = reward.Judge(space, table, reward.rules_of(space, table))
    point, best, ranks, feasible = reward.exhaustive(judge)
    print(f"{space.name}: {len(ranks)} points, {feasible} feasible; the best:\n{search.report(judge, point)}")
    if not best.feasible:
        return False
    ratio = lambda p: judge.of(p).reward / best.reward if judge.of(p).feasible else 0.0
    start = time.monotonic()
    found = [ratio(p) for p in search.rl(judge, SEEDS, settings)]
    taken = time.monotonic() - start
    chance = [ratio(p) for p in search.at_random(judge, SEEDS, settings.restarts * settings.evaluations)]
    reached = sum(r >= REACHED for r in found)
    print(f"{space.name}: by seed", *(f"{r:.4f}" for r in found))
    say(f"{prefix}ratio", f"{statistics.median(found):.4f}", "1")
    say(f"{prefix}seeds", reached, "seeds")
    say(f"{prefix}random", f"{statistics.median(chance):.4f}", "1")
    say(f"{prefix}time", f"{taken:.1f}", "s")
    return reached >= LEAST and statistics.median(found) > statistics.median(chance)


def difference(got, table):
    """The first cell that differs from the table, in words."""
    for key, cell in got.cells.items():
        if cell != table.cells[key]:
            return f"{' '.join(map(str, key))}: the table has {table.cells[key]}, the evaluator says {cell}"
    return ""


def verify_answers(ev, space, table, name, model):
    """Evaluates a backbone again. Returns the number of cells, or the difference."""
    if evaluate.of_file(model) != table.backbones[name][0]:
        return 0, f"{model} is not the backbone of the table"
    if ev.data != table.data:
        return 0, "the images are not those of the table"
    again = dataclasses.replace(table, cells={})
    for circuit in ("and-bin", "and-loop"):     # the others take minutes
        accuracies.add_cells(ev, again, name, model, circuit, accuracies.within_reach(table, space, name),
                             accuracies.steps_of(space.name, circuit))
    return len(again.cells), difference(again, table)


def verify_costs(ev, space, table, name, model):
    """Measures all costs again, on random weights and on those of the best backbone."""
    folder, board = ev.cache / space.name, evaluate.BOARD
    shapes.write(space, folder)
    again = costs.make(ev, space, folder, board)
    if again.board != table.board or again.levels != table.levels or again.late != table.late:
        return 0, f"{board}, its levels or the time constraint are not those of the table: run tools/rrsc/costs.py"
    why = difference(again, table)
    if why:
        return 0, f"{why}: run tools/rrsc/costs.py"
    trained = dataclasses.replace(table, cells={})
    for circuit, of_circuit in evaluate.boards(board, ev.cache / "boards").items():
        costs.add_cells(ev, trained, name, model, circuit, of_circuit)
    return len(again.cells) + len(trained.cells), difference(trained, table)


def verify(space, tool):
    """Asks the C evaluator again. Returns the number of results, or the difference."""
    table = tables.load(space, search.HERE)
    judge = reward.Judge(space, table, reward.rules_of(space, table))
    name = space.config(reward.exhaustive(judge)[0]).backbone
    model = search.HERE / "found" / f"{name}.onnx"
    if not model.exists():
        return 0, f"{model} is missing: it is the best backbone"
    with tempfile.TemporaryDirectory() as folder:
        ev = evaluate.Evaluator(tool, pathlib.Path(folder))
        answers, why = verify_answers(ev, space, table.accuracies, name, model)
        if why:
            return 0, why
        paid, why = verify_costs(ev, space, table.costs, name, model)
        return answers + paid, why


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tool", type=pathlib.Path, default=evaluate.TOP / "build/rivulet")
    opt = ap.parse_args()
    torch.set_num_threads(1)
    failed = verified = 0
    for name, prefix in SPACES:
        if not bench(spaces.SPACES[name], prefix):
            print(f"not ok - {name}: {LEAST} of {len(SEEDS)} seeds at {REACHED}, and a median above random search, are required")
            failed = 1
        cells, why = verify(spaces.SPACES[name], opt.tool)
        verified += cells
        if why:
            print(f"not ok - {name}: {why}")
            failed = 1
    say("verified", verified, "cells")
    sys.exit(failed)


if __name__ == "__main__":
    main()
