# SPDX-License-Identifier: MIT
"""Makes NAME.accuracy: the right answers of every backbone, circuit and length, by `rivulet eval`.

    python3 tools/rrsc/accuracies.py mlp --backbones build/rrsc

Needs the standard library only, and trained backbones. A cell is measured in three steps with a growing number of
images, and a step is omitted if the accuracy is 3 standard deviations below the lowest one that the space requires.
"""
import argparse
import pathlib
import sys
import time

import evaluate
import space as spaces
import table as tables

# Images of each step, and by how many points a cell may be below the floor to continue. Plans use images 0..4999.
STEPS = ((50, 18.0), (200, 9.0))
# Images of the last step: circuits with state in every cycle take a hundred times as long to simulate.
LAST = {"mlp": {"ugemm": 400}, "lenet": {"and-acc": 400, "and-sep": 400, "ugemm": 400}}
LAST_OF_OTHERS = {"mlp": 2000, "lenet": 1000}
# Products per image times bits beyond which a cell is not measured, in those of the time constraint. Products cost the
# same in every MLP, and in the LeNets between 0.75 and 1.02 of the reference's cycles; 1.5 is all of them.
REACH = {"mlp": spaces.SLACK_OF_TC, "lenet": 1.5}


def steps_of(space, circuit):
    return (*STEPS, (LAST[space].get(circuit, LAST_OF_OTHERS[space]), None))


def within_reach(t, space, name):
    """The lengths at which a backbone can be on time."""
    most = REACH[space.name] * t.backbones[space.reference][1] * spaces.LENGTH_OF_TC
    return [n for n in spaces.LENGTHS if t.backbones[name][1] * n <= most]


def add_cells(ev, t, name, model, circuit, lengths, steps):
    """The cells of one backbone and circuit."""
    t.cells.update({(name, circuit, n): tables.Answers(0, 0) for n in spaces.LENGTHS})
    left = lengths
    for count, slack in steps:
        if not left:
            break
        right, _ = ev.right(model, circuit, left, count)
        t.cells.update({(name, circuit, n): tables.Answers(count, right[n]) for n in left})
        left = [n for n in left if slack is None or 100 * right[n] / count >= t.floor - slack]


def start(ev, space, backbones):
    """A table without cells."""
    t = tables.Accuracies(space.name, ev.data, min(space.accuracy))
    for name, model in backbones.items():
        t.backbones[name] = (evaluate.of_file(model), ev.right(model, "and-bin", [spaces.LENGTH_OF_TC], 1)[1])
    return t


def make(ev, space, folder, log=sys.stderr):
    """The table of a space whose backbones are folder/NAME.onnx."""
    backbones, began = evaluate.backbones_of(space, folder), time.monotonic()
    t, todo = start(ev, space, backbones), len(list(tables.keys(space)))
    for circuit in spaces.CIRCUITS:
        for name, model in backbones.items():
            add_cells(ev, t, name, model, circuit, within_reach(t, space, name), steps_of(space.name, circuit))
            print(f"{space.name} {name} {circuit}: {len(t.cells)} of {todo} cells, {time.monotonic() - began:.0f} s",
                  file=log, flush=True)
    return t


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("space", choices=list(spaces.SPACES))
    ap.add_argument("--backbones", type=pathlib.Path, required=True, help="folder of SPACE/NAME.onnx")
    ap.add_argument("-o", "--output", type=pathlib.Path, help="the table (default: SPACE.accuracy beside this program)")
    ap.add_argument("--threads", type=int, default=1)
    evaluate.add_arguments(ap)
    opt = ap.parse_args()
    space = spaces.SPACES[opt.space]
    output = opt.output or pathlib.Path(__file__).resolve().parent / f"{space.name}.accuracy"
    t = make(evaluate.Evaluator(opt.tool, opt.cache, threads=opt.threads), space, opt.backbones / space.name)
    tables.replace(output, tables.text(t).encode())
    print(f"wrote {output}: {len(t.cells)} cells", file=sys.stderr)


if __name__ == "__main__":
    main()
