# SPDX-License-Identifier: MIT
"""Compares reinforcement learning with exhaustive and with random search on the committed tables.

    python3 tools/rrsc/bench.py --tool build/rivulet

20 seeds, 5 restarts of 400 evaluations; random search evaluates 2,000 different points. Exits with 1
if fewer than 18 seeds reach 99 % of the optimum, if the median is not above that of random search,
or if the C evaluator's result for the best backbone (found/NAME.onnx) differs from the table.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import torch

import evaluate
import reward
import search
import space as spaces
import table as tables
from controller import Settings

SPACES = (("mlp", ""), ("lenet", "lenet."))
SEEDS, REACHED, LEAST = list(range(1, 21)), 0.99, 18


def say(name, value, unit):
    print(f"figure rrsc.{name} {value} {unit}", flush=True)


def bench(space, prefix):
    """Prints a space's figures. Returns whether they meet the bars."""
    table, settings = tables.load(search.HERE / f"{space.name}.table"), Settings()
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


def verify(space, tool):
    """Evaluates the best point's backbone again with the C evaluator. Returns the number of cells, or the difference."""
    table = tables.load(search.HERE / f"{space.name}.table")
    judge = reward.Judge(space, table, reward.rules_of(space, table))
    name = space.config(reward.exhaustive(judge)[0]).backbone
    model, board = search.HERE / "found" / f"{name}.onnx", evaluate.BOARD
    if evaluate.of_file(model) != table.backbones[name][0]:
        return 0, f"{model} is not the backbone of the table"
    if evaluate.of_file(board) != table.board[1]:
        return 0, f"{board} is not the board of the table"
    with tempfile.TemporaryDirectory() as folder:
        ev = evaluate.Evaluator(tool, pathlib.Path(folder))
        if ev.data != table.data:
            return 0, "the images are not those of the table"
        again = tables.Table(table.space, table.board, table.data, table.floor, table.late, table.levels, table.backbones)
        of_circuit = evaluate.boards(board, ev.cache)
        for circuit in ("and-bin", "and-loop"):     # the others take minutes
            evaluate.add_cells(ev, again, name, model, circuit, of_circuit[circuit], evaluate.steps_of(space.name, circuit))
    for key, cell in again.cells.items():
        if cell != table.cells[key]:
            return 0, f"{' '.join(map(str, key))}: the table has {table.cells[key]}, the evaluator says {cell}"
    return len(again.cells), ""


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
