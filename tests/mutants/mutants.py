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
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import sites
from build import FOLDERS, OUT, PROGRAM_TESTS, ROOT, Build, digest, sources, test_path, unit_tests
from cover import Coverage
from sandbox import Sandbox, Stopped
from verdicts import Verdicts

CHUNK_SECONDS = 1.0           # tests of a binary that run in one process, by their measured time
VALID = ("killed", "survived", "uncovered")


@dataclass
class Result:
    """The result of a mutant; @state: one of VALID, or "invalid" (does not compile), or "same" (same
    object).
    """
    state: str
    path: str
    line: int
    function: str
    change: str
    detail: str = ""
    tests: list = field(default_factory=list)


def chunks(tests):
    """Splits (name, seconds) into (names, seconds) of about CHUNK_SECONDS, the short tests first."""
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
        self.originals, self.bad = {}, set()
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
            result.tests = self.coverage.names(site)
            result.state = self.run_tests(box, self.base, site.path, obj, covering, result) if covering else "uncovered"
            if self.asan and result.state == "survived" and self.asan.compile(site.path, mutated, obj):
                result.state = self.run_tests(box, self.asan, site.path, obj, covering, result)

    def plan(self, covering):
        """(binary, names, seconds) of the groups of covering tests, the cheapest group of all binaries first."""
        by_binary = defaultdict(list)
        for t in covering:
            binary, name, seconds, _ = self.coverage.tests[t]
            by_binary[binary].append((name, seconds))
        groups = [(binary, *chunk) for binary, tests in by_binary.items() for chunk in chunks(tests)]
        return sorted(groups, key=lambda g: g[2])

    def run_tests(self, box, build, path, obj, covering, result):
        linked, modules = {}, defaultdict(set)
        for t in covering:
            modules[self.coverage.tests[t][0]].update(self.coverage.tests[t][3])
        for binary, names, seconds in self.plan(covering):
            if binary not in linked:
                linked[binary] = self.relink(box, build, path, obj, modules[binary])
            how = self.kills(box, build, binary, names, seconds, linked[binary])
            if how:
                result.detail = f"{binary}: {how}"
                return "killed"
        return "survived"

    def relink(self, box, build, path, obj, modules):
        """Links @modules with the mutant; (mutated, original) of each that has it."""
        binds = []
        for module in sorted(modules):
            binary = build.binary(module)
            if binary and build.uses(binary, path):
                out = box.dir / f"{build.dir.replace('/', '-')}-{module}"
                if not out.exists():
                    build.link(binary, path, obj, out)
                binds.append((str(out.relative_to(ROOT)), binary))
        return binds

    def kills(self, box, build, binary, names, seconds, binds):
        """Returns how a group of tests detects a mutant, or None. A failure must repeat, and must
        not occur without the mutant.
        """
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
        if box.run(build, binary, names, *limits, env, binds) == "passed":
            return None
        return how if self.sound(box, build, binary, names, limits, env) else \
            self.kills(box, build, binary, names, seconds, binds)

    def sound(self, box, build, binary, names, limits, env):
        """Returns whether the tests pass without a mutant at this moment. A test that fails twice is
        left out afterwards.
        """
        if box.run(build, binary, names, *limits, env) == "passed":
            return True
        bad = [n for n in names if all(box.run(build, binary, [n], *limits, env) != "passed" for _ in range(2))]
        for name in bad:
            print(f"mutants: not used, fails without a mutant: {binary} {name}", flush=True)
            self.bad.add((build.dir, binary, name))
        return not bad


class State:
    """Digests of what results depend on: sources, headers, binaries, the data of the tests and this program."""

    def __init__(self, build, coverage):
        self.build, self.coverage, self.digests = build, coverage, {}
        headers = [p for d in FOLDERS + ("uapi",) for p in (ROOT / d).rglob("*.h")]
        self.headers = self.of_files(headers)
        self.tool = self.of_files(p for p in (ROOT / "tests/mutants").iterdir()
                                  if p.suffix in (".py", ".c") or p.name == "sandbox")
        self.data = self.of_files(p for d in ("tests/data", "models") for p in (ROOT / d).rglob("*") if p.is_file())

    @staticmethod
    def of_files(paths):
        return digest(b"".join(bytes(str(p), "utf-8") + bytes(digest(p.read_bytes()), "ascii") for p in sorted(paths)))

    def of(self, name):
        """The digest of a file below the root, read once."""
        if name not in self.digests:
            self.digests[name] = digest((ROOT / name).read_bytes())
        return self.digests[name]

    def key(self, site, choice):
        return f"{site.path} {self.of(site.path)[:16]} {site.ordinal} {choice}"

    def needs(self, result):
        """Returns what a result depends on: the killing binary, or all binaries with covering tests,
        and what these start.
        """
        tests = result.tests
        if result.state == "killed":
            tests = [t for t in tests if t.startswith(result.detail.split(":")[0] + ":")]
        if result.state not in VALID:
            return {"headers": self.headers}
        return {"tool": self.tool, "data": self.data, **{b: self.of(b) for b in sorted(self.binaries(tests))}}

    def binaries(self, tests):
        for number in (self.coverage.numbers[t] for t in tests if t in self.coverage.numbers):
            binary, _, _, modules = self.coverage.tests[number]
            yield f"{self.build.dir}/{test_path(binary)}"
            yield from (b for b in map(self.build.binary, modules) if b)


class Store:
    """Results of earlier runs; one holds as long as all that it depends on has the same digest."""

    def __init__(self, name, state):
        self.path = OUT / name
        self.state = state
        self.known = {}
        self.lock = threading.Lock()
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                key, needs, fields = json.loads(line)
                self.known[key] = needs, Result(**fields)

    def find(self, site, choice):
        needs, result = self.known.get(self.state.key(site, choice), (None, None))
        if not result:
            return None
        if result.state in VALID and result.state != "killed":
            result.tests = self.state.coverage.names(site)
        return result if self.state.needs(result) == needs else None

    def add(self, site, choice, result):
        key, needs = self.state.key(site, choice), self.state.needs(result)
        with self.lock:
            self.known[key] = needs, result
            with open(self.path, "a") as f:
                f.write(json.dumps([key, needs, result.__dict__]) + "\n")


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
    """Takes candidates in order until enough of them were valid mutants."""

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
            result = self.store.find(site, choice)
            if not result:
                try:
                    result = self.trial.try_one(site, choice)
                except Stopped:
                    return
                if self.stopped:
                    return
                self.store.add(site, choice, result)
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
    store = Store("results-asan.jsonl" if asan else "results.jsonl", State(base, coverage))
    run = Run(args, Trial(base, coverage, asan), store)
    run.run()
    return report(run, args)


if __name__ == "__main__":
    sys.exit(main())
