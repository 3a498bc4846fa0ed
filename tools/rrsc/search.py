# SPDX-License-Identifier: MIT
"""Searches backbone, circuit and bitstream lengths together.

    python3 tools/rrsc/search.py mlp                       exhaustive: exact, needs the standard library only
    python3 tools/rrsc/search.py mlp --method rl --seed 1  reinforcement learning, with PyTorch
    python3 tools/rrsc/search.py mlp --method random --seed 1

With --state FILE a search saves its state after every update and continues from it when started again.
"""
import argparse
import hashlib
import io
import pathlib
import random
import sys
import time

import reward
import space as spaces
import table as tables

HERE = pathlib.Path(__file__).resolve().parent


class Memory:
    """The points that each of several independent searches has evaluated."""

    KEPT = 16   # number of best points kept in order

    def __init__(self, judge, searches):
        self.judge, self.outcomes = judge, {}
        self.known = [{} for _ in range(searches)]      # point: outcome
        self.top = [[] for _ in range(searches)]

    def _order(self, point):
        """Sort key: best first, and among equals the first of the space."""
        feasible, reward_of = self.outcomes[point].rank
        return not feasible, -reward_of, point

    def evaluate(self, search, point):
        """Evaluates a point that is new to this search."""
        if point not in self.outcomes:
            self.outcomes[point] = self.judge.of(point)
        self.known[search][point] = self.outcomes[point]
        top = self.top[search]
        top.append(point)
        top.sort(key=self._order)
        del top[self.KEPT:]

    def best(self, search, n):
        """The n best points, at most KEPT."""
        return self.top[search][:n]

    def best_of(self, searches):
        return min((self.top[i][0] for i in searches), key=self._order)


def at_random(judge, seeds, budget):
    """The best of `budget` different points for each seed."""
    memory, space = Memory(judge, len(seeds)), judge.space
    for i, seed in enumerate(seeds):
        for index in random.Random(seed).sample(range(space.size), min(budget, space.size)):
            memory.evaluate(i, space.point(index))
    return [memory.best_of([i]) for i in range(len(seeds))]


def fingerprint(judge, seeds, settings):
    """A hash of everything that a saved state depends on."""
    what = (judge.space, judge.rules, *map(tables.text, (judge.table.accuracies, judge.table.costs)), list(seeds), settings)
    return hashlib.sha256(repr(what).encode()).hexdigest()


class State:
    """The saved state of a search, replaced atomically."""

    def __init__(self, path, key):
        self.path, self.key = path, key

    def read(self):
        if not self.path or not self.path.exists():
            return None
        import torch
        try:
            kept = torch.load(io.BytesIO(self.path.read_bytes()), weights_only=True)
        except Exception as e:      # torch names no class of its own for this
            raise ValueError(f"{self.path}: no state of a search: {e}") from None
        if not isinstance(kept, dict) or kept.get("key") != self.key:
            raise ValueError(f"{self.path}: of another search (table, rules, seeds or settings differ)")
        return kept

    def write(self, **what):
        if not self.path:
            return
        import torch
        data = io.BytesIO()
        torch.save({"key": self.key, **what}, data)
        tables.replace(self.path, data.getvalue())


def draw(control, memory):
    """One update: draws points, evaluates new ones within the limit, and trains the controllers."""
    import torch
    settings, elite, pulled = control.settings, None, None
    if control.update:
        best = [memory.best(g, settings.elite) for g in range(len(control.groups))]
        elite = torch.tensor(best)
        # Without feasible points the best one is all-shortest (defect (a) of the reward), which must not be trained on.
        pulled = torch.tensor([[float(memory.outcomes[p].feasible) for p in points] for points in best])
    choices, logs, entropies = control.draw(elite)
    first = 0 if elite is None else elite.shape[1]
    allowed, rewards, known = settings.allowed(control.update), [], []
    for g, points in enumerate(choices[:, first:].tolist()):
        evaluated = memory.known[g]
        for point in map(tuple, points):
            if point not in evaluated and len(evaluated) < allowed:
                memory.evaluate(g, point)
        rewards.append([evaluated[p].reward if p in evaluated else 0.0 for p in map(tuple, points)])
        known.append([float(p in evaluated) for p in map(tuple, points)])
    control.learn(logs, entropies, torch.tensor(rewards), torch.tensor(known), pulled)


def neighbours(space, point):
    """The points that differ from it in one decision."""
    for i, options in enumerate(space.options):
        for choice in range(options):
            if choice != point[i]:
                yield point[:i] + (choice,) + point[i + 1:]


def refine(memory, search, evaluations):
    """Spends the remaining evaluations of a search on neighbours of its best points, best point first."""
    done = set()
    while len(memory.known[search]) < evaluations:
        point = next((p for p in memory.best(search, memory.KEPT) if p not in done), None)
        if point is None:
            return
        done.add(point)
        for other in neighbours(memory.judge.space, point):
            if other not in memory.known[search] and len(memory.known[search]) < evaluations:
                memory.evaluate(search, other)


def rl(judge, seeds, settings, state=None, stop=None, progress=None):
    """
    The best point of each seed's restarts, or None after `stop` updates.
    progress(update, updates, memory) is called after each update.
    """
    from controller import Controllers

    file = State(state, fingerprint(judge, seeds, settings))
    control = Controllers(judge.space.options, seeds, settings)
    memory = Memory(judge, len(control.groups))
    kept = file.read()
    if kept:
        control.restore(kept["control"])
        for g, known in enumerate(kept["known"]):
            for index in known:
                memory.evaluate(g, judge.space.point(index))
    while not control.finished:
        if stop is not None and control.update >= stop:
            return None
        draw(control, memory)
        file.write(control=control.state(), known=[[judge.space.index(p) for p in k] for k in memory.known])
        if progress:
            progress(control.update, settings.updates, memory)
    for g in range(len(control.groups)):
        refine(memory, g, settings.evaluations)
    r = settings.restarts
    return [memory.best_of(range(i * r, (i + 1) * r)) for i in range(len(seeds))]


def report(judge, point):
    """The description of a point."""
    config, o = judge.space.config(point), judge.of(point)
    lines = [f"{config}: " + (f"reward {o.reward:.4f}" if o.feasible else f"infeasible: {o.why}")]
    for (name, _, hz), n, a, t in zip(judge.table.levels, config.lengths, o.accuracy, o.latency):
        lines.append(f"  {name} {hz / 1e6:.0f} MHz: {n:3} bits, {a:.2f} %, {1e3 * t:.1f} ms of "
                     f"{1e3 * judge.rules.constraint:.1f} ms")
    lines.append(f"  {o.runs:.0f} runs a joule")
    return "\n".join(lines)


def numbers(text):
    return tuple(float(v) for v in text.split(","))


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("space", choices=list(spaces.SPACES))
    ap.add_argument("--tables", type=pathlib.Path, default=HERE, help="folder of SPACE.accuracy and SPACE.cost (default: that of this program)")
    ap.add_argument("--method", choices=("exhaustive", "rl", "random"), default="exhaustive")
    ap.add_argument("--accuracy", type=numbers, help="minimum at each level in percent, fastest first: 87,84,79")
    ap.add_argument("--time-constraint", type=float, help="ms")
    ap.add_argument("--penalty", type=float, default=0.2)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--restarts", type=int, default=5)
    ap.add_argument("--evaluations", type=int, default=400, help="of a restart")
    ap.add_argument("--state", type=pathlib.Path, help="rl: save the state here and continue from it")
    return ap.parse_args()


def judge_of(opt):
    space = spaces.SPACES[opt.space]
    table = tables.load(space, opt.tables)
    other = {"penalty": opt.penalty}
    if opt.accuracy:
        other["accuracy"] = opt.accuracy
    if opt.time_constraint:
        other["constraint"] = opt.time_constraint / 1e3
    return reward.Judge(space, table, reward.rules_of(space, table, **other))


def search(opt, judge):
    if opt.method == "exhaustive":
        best, _, ranks, feasible = reward.exhaustive(judge)
        print(f"{len(ranks)} points, {feasible} feasible", file=sys.stderr)
        return best
    if opt.method == "random":
        return at_random(judge, [opt.seed], opt.restarts * opt.evaluations)[0]
    from controller import Settings
    start = time.monotonic()

    def progress(update, updates, memory):
        if update % 10 == 0 or update == updates:
            best = judge.of(memory.best_of(range(opt.restarts)))
            print(f"update {update} of {updates}: {sum(map(len, memory.known))} evaluations, "
                  f"{'reward' if best.feasible else 'infeasible,'} {best.reward:.4f}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

    settings = Settings(restarts=opt.restarts, evaluations=opt.evaluations)
    return rl(judge, [opt.seed], settings, opt.state, progress=progress)[0]


def main():
    opt = arguments()
    try:
        judge = judge_of(opt)
        best = search(opt, judge)
    except (ValueError, OSError) as e:
        sys.exit(f"rrsc: {e}")
    print(report(judge, best))
    if not judge.of(best).feasible:
        sys.exit("rrsc: infeasible: no evaluated point meets all constraints; the best of them is above")


if __name__ == "__main__":
    main()
