#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Changes one operator, constant or branch at a time and runs the unit tests that execute it: see README."""
import argparse
import json
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import sites
from build import FOLDERS, OUT, PROGRAM_TESTS, ROOT, Build, digest, sources, unit_tests
from cover import Coverage
from sandbox import Sandbox
from verdicts import Verdicts

CHUNK_SECONDS = 1.0           # tests of a binary that run in one process, by their measured time
VALID = ("killed", "survived", "uncovered")


@dataclass
class Result:
    """What became of a mutant; @state: one of VALID, or "invalid" (does not compile), or "same" (same object)."""
    state: str
    path: str
    line: int
    function: str
    change: str
    detail: str = ""
    tests: list = field(default_factory=list)


def chunks(tests):
    """Splits (name, seconds) into groups of about CHUNK_SECONDS, the short ones first."""
    group, total = [], 0.0
    for name, seconds in sorted(tests, key=lambda t: t[1]):
        if group and total + seconds > CHUNK_SECONDS:
            yield group, total
            group, total = [], 0.0
        group.append(name)
        total += seconds
    if group:
        yield group, total


class Trial:
    """Tries mutants, each in a folder of its own."""

    def __init__(self, base, coverage, asan=None):
        self.base, self.coverage, self.asan = base, coverage, asan
        self.originals, self.good, self.bad = {}, set(), set()
        self.lock = threading.Lock()

    def original(self, build, path):
        key = build.dir, path
        if key not in self.originals:
            out = OUT / "work" / ("original-" + digest(bytes(build.dir + path, "ascii"))[:16] + ".o")
            out.parent.mkdir(parents=True, exist_ok=True)
            if not build.compile(path, (ROOT / path).read_text(), out):
                raise SystemExit(f"mutants: {path} does not compile alone")
            self.originals[key] = digest(out.read_bytes())
            out.unlink()
        return self.originals[key]

    def try_one(self, site, choice):
        text = (ROOT / site.path).read_text()
        result = Result("", site.path, site.line, site.function, site.describe(text, choice))
        box = Sandbox("m-" + digest(bytes(f"{site.path} {site.ordinal} {choice}", "utf-8"))[:16])
        try:
            self.judge(box, site, site.mutate(text, choice), result)
        finally:
            box.remove()
        return result

    def judge(self, box, site, mutated, result):
        obj = box.dir / "mutant.o"
        if not self.base.compile(site.path, mutated, obj):
            result.state = "invalid"
        elif digest(obj.read_bytes()) == self.original(self.base, site.path):
            result.state = "same"
        else:
            covering = self.coverage.covering(site)
            result.tests = [f"{self.coverage.tests[t][0]}:{self.coverage.tests[t][1]}" for t in covering]
            result.state = self.run_tests(box, self.base, site.path, obj, covering, result) if covering else "uncovered"
            if self.asan and result.state == "survived" and self.asan.compile(site.path, mutated, obj):
                result.state = self.run_tests(box, self.asan, site.path, obj, covering, result)

    def run_tests(self, box, build, path, obj, covering, result):
        by_binary = {}
        for t in covering:
            binary, name, seconds, modules = self.coverage.tests[t]
            group = by_binary.setdefault(binary, ([], set()))
            group[0].append((name, seconds))
            group[1].update(modules)
        order = sorted(by_binary.items(), key=lambda kv: sum(s for _, s in kv[1][0]))
        for binary, (tests, modules) in order:
            binds = self.relink(box, build, path, obj, modules)
            for names, seconds in chunks(tests):
                how = self.kills(box, build, binary, names, seconds, binds)
                if how:
                    result.detail = f"{binary}: {how}"
                    return "killed"
            for mutated, _ in binds:
                (ROOT / mutated).unlink()
        return "survived"

    def relink(self, box, build, path, obj, modules):
        binds = []
        for module in sorted(modules):
            binary = build.binary(module)
            if binary and build.uses(binary, path):
                out = box.dir / module
                build.link(binary, path, obj, out)
                binds.append((str(out.relative_to(ROOT)), binary))
        return binds

    def kills(self, box, build, binary, names, seconds, binds):
        """How a group of tests ends a mutant, or None. What fails once in two, or without it too, does not."""
        names = [n for n in names if (build.dir, binary, n) not in self.bad]
        if not names:
            return None
        slow = 5 if build.dir.endswith("asan") else 1
        limits = 10 + 15 * seconds * slow, 5 + 10 * seconds * slow
        env = {"MUTANTS_MEMORY": "unlimited"} if slow > 1 else None
        verdict = box.run(build, binary, names, *limits, env, binds)
        if verdict == "passed":
            return None
        how = box.failure() or verdict
        if verdict == "failed" and box.run(build, binary, names, *limits, env, binds) == "passed":
            return None
        return how if self.sound(box, build, binary, names, limits, env) else \
            self.kills(box, build, binary, names, seconds, binds)

    def sound(self, box, build, binary, names, limits, env):
        """Whether the tests pass without a mutant; those that do not are left out from here on."""
        key = build.dir, binary, tuple(names)
        if key in self.good:
            return True
        sound = True
        if box.run(build, binary, names, *limits, env) != "passed":
            for name in names:
                if box.run(build, binary, [name], *limits, env) != "passed":
                    print(f"mutants: not used, fails without a mutant: {binary} {name}", flush=True)
                    self.bad.add((build.dir, binary, name))
                    sound = False
        self.good.add(key)
        return sound


class Store:
    """Results of earlier runs over the same sources and tests."""

    def __init__(self, state):
        self.path = OUT / f"results-{state}.jsonl"
        self.known = {}
        self.lock = threading.Lock()
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                key, fields = json.loads(line)
                self.known[key] = Result(**fields)

    def add(self, key, result):
        with self.lock:
            self.known[key] = result
            with open(self.path, "a") as f:
                f.write(json.dumps([key, result.__dict__]) + "\n")


def tree_state():
    """One name for all that decides a result."""
    files = sorted(p for d in FOLDERS + ("uapi", "tests/unit", "tests/mutants") for p in (ROOT / d).rglob("*")
                   if p.is_file() and p.suffix in (".c", ".h", ".py", ".mk") or p.name == "sandbox")
    return digest(b"".join(bytes(str(p.relative_to(ROOT)), "utf-8") + p.read_bytes() for p in files))[:16]


def candidates(args):
    found = []
    for path in sources(args.folders):
        found += sites.sites(path, (ROOT / path).read_text())
    if args.retest:
        wanted = Verdicts(ROOT / args.retest)
        return [(s, c) for s in found for c in s.choices
                if wanted.find(s.path, s.function, s.describe((ROOT / s.path).read_text(), c))]
    random.Random(args.seed).shuffle(found)
    return [(s, sites.pick(s, args.seed)) for s in found]


class Run:
    """Takes candidates in order until enough of them were mutants."""

    def __init__(self, args, trial, store):
        self.args, self.trial, self.store = args, trial, store
        self.todo = candidates(args)
        self.results = {}
        self.next = 0
        self.stopped = False
        self.lock = threading.Lock()
        self.started = time.monotonic()

    def tried(self):
        """Results in the candidates' order, up to the number asked for."""
        valid = [self.results[i] for i in sorted(self.results) if self.results[i].state in VALID]
        return valid[:self.args.number] if not self.args.retest else valid

    def take(self):
        with self.lock:
            done = not self.args.retest and len(self.tried()) >= self.args.number
            if self.stopped or done or self.next >= len(self.todo):
                return None
            self.next += 1
            return self.next - 1

    def work(self):
        while (i := self.take()) is not None:
            site, choice = self.todo[i]
            key = f"{site.path} {site.ordinal} {choice}"
            result = self.store.known.get(key)
            if not result:
                result = self.trial.try_one(site, choice)
                if self.stopped:
                    return
                self.store.add(key, result)
            with self.lock:
                self.results[i] = result
            self.progress(result)

    def progress(self, r):
        if r.state in VALID:
            print(f"{len(self.tried()):4d} {time.monotonic() - self.started:6.0f} s  {r.state:9s} {r.path}:{r.line}  "
                  f"{r.change}  {r.detail}", flush=True)

    def stop(self, *_):
        self.stopped = True
        print("mutants: interrupted; the results so far are kept", flush=True)
        Sandbox.end_all()

    def run(self):
        signal.signal(signal.SIGINT, self.stop)
        signal.signal(signal.SIGTERM, self.stop)
        with ThreadPoolExecutor(self.args.jobs) as pool:
            for done in [pool.submit(self.work) for _ in range(self.args.jobs)]:
                done.result()


def report(run, args):
    tried = run.tried()
    verdicts = Verdicts(ROOT / "tests/mutants/verdicts.txt")
    killed = sum(r.state == "killed" for r in tried)
    alive = [r for r in tried if r.state != "killed"]
    equivalent = [r for r in alive if verdicts.equivalent(r.path, r.function, r.change)]
    path = OUT / f"survivors-{args.seed}.txt"
    path.write_text("\n".join(verdicts.entry(r) for r in sorted(alive, key=lambda r: (r.path, r.line))))
    print(f"\nsurvivors (also in {path.relative_to(ROOT)}):")
    print(path.read_text())
    score = 100.0 * killed / max(1, len(tried) - len(equivalent))
    print(f"figure mutants.seed {args.seed}")
    print(f"figure mutants.tried {len(tried)} mutants")
    print(f"figure mutants.killed {killed} mutants")
    print(f"figure mutants.equivalent {len(equivalent)} mutants")
    print(f"figure mutants.score {score:.1f} %")
    if len(equivalent) * 10 > len(tried):
        print("mutants: more than a tenth are called equivalent")
        return 1
    return 0


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--number", type=int, default=60)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--folders", nargs="+", default=FOLDERS, help="mutate only these folders")
    p.add_argument("--retest", help="try only the mutants of a list of survivors")
    p.add_argument("--sanitize", action="store_true", help="run what survives with ASan and UBSan too")
    return p.parse_args()


def main():
    args = options()
    print(f"mutants: {args.number} of seed {args.seed}, {args.jobs} at a time", flush=True)
    base, trace = Build("base"), Build("trace")
    asan = Build("asan") if args.sanitize else None
    for build in (base, trace, asan):
        if build:
            build.build(args.jobs)
    coverage = Coverage(trace, args.jobs)
    coverage.measure([*unit_tests(), *PROGRAM_TESTS])
    print(f"mutants: {len(coverage.tests)} tests cover {sum(len(v) for v in coverage.by_line.values())} of "
          f"{sum(len(v) for v in coverage.code.values())} lines", flush=True)
    store = Store(tree_state() + ("-asan" if asan else ""))
    run = Run(args, Trial(base, coverage, asan), store)
    run.run()
    return report(run, args)


if __name__ == "__main__":
    sys.exit(main())
