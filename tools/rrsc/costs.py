# SPDX-License-Identifier: MIT
"""Makes NAME.cost of every space: cycles and energy of every backbone, circuit and length, by `rivulet explain`.

    python3 tools/rrsc/costs.py

Needs the standard library only and takes less than a minute. Costs depend on shapes alone, so the backbones have random
weights. Run it when the compiler or the board changes what a stochastic layer costs.
"""
import argparse
import pathlib
import sys

import evaluate
import shapes
import space as spaces
import table as tables

HERE = pathlib.Path(__file__).resolve().parent


def add_cells(ev, t, name, model, circuit, board):
    """The cells of one backbone and circuit."""
    fastest = spaces.LEVELS[0][1]
    for n in spaces.LENGTHS:
        rows = ev.cost(model, board, n)
        t.cells[name, circuit, n] = tables.Cost(rows[fastest]["cycles"], tuple(rows[level]["joule"] for _, level in spaces.LEVELS))


def start(ev, space, reference, board, plain):
    """A table without cells. plain: the board file itself, for and-bin."""
    rows = ev.cost(reference, plain, spaces.LENGTH_OF_TC)
    t = tables.Costs(space.name, (board.stem, evaluate.of_file(board)))
    t.levels = [(level, n, rows[n]["hz"]) for level, n in spaces.LEVELS]
    t.late = spaces.SLACK_OF_TC * rows[spaces.LEVELS[0][1]]["seconds"]
    return t


def make(ev, space, folder, board):
    """The table of a space whose backbones are folder/NAME.onnx."""
    backbones = evaluate.backbones_of(space, folder)
    of_circuit = evaluate.boards(board, ev.cache / "boards")
    t = start(ev, space, backbones[space.reference], board, of_circuit["and-bin"])
    for name, model in backbones.items():
        for circuit in spaces.CIRCUITS:
            add_cells(ev, t, name, model, circuit, of_circuit[circuit])
    return t


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("space", nargs="*", default=list(spaces.SPACES), help="by default all")
    ap.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="folder of SPACE.cost")
    ap.add_argument("--board", type=pathlib.Path, default=evaluate.BOARD)
    evaluate.add_arguments(ap)
    opt = ap.parse_args()
    ev = evaluate.Evaluator(opt.tool, opt.cache)
    for name in opt.space:
        if name not in spaces.SPACES:
            ap.error(f"no space {name}, but {', '.join(spaces.SPACES)}")
        space, folder = spaces.SPACES[name], opt.cache / "shapes" / name
        shapes.write(space, folder)
        t = make(ev, space, folder, opt.board)
        tables.replace(opt.output / f"{name}.cost", tables.text(t).encode())
        print(f"wrote {opt.output / name}.cost: {len(t.cells)} cells", file=sys.stderr)


if __name__ == "__main__":
    main()
