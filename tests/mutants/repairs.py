#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes one repair at a time out of a copy of the tree; the tests named for it must fail: see repairs.txt and
repairs-driver.txt."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field

import driver_repairs
import kmod
from build import OUT, ROOT, hook
from sandbox import load

TREE = OUT / "repairs"
LOG = OUT / "repairs.log"
LISTS = "repairs.txt", "repairs-driver.txt"
SANDBOX = ROOT / "tests/mutants/sandbox"
# Kinds of tests that boot a machine for one pattern, by the script that does.
BOOTS = {"vm": ["scripts/vm-check.sh"], "arm64": ["scripts/check-arm64", "--irq"]}
TEST_SECONDS = 150            # of a unit test or a command, multiplied by the machine's load
VM_SECONDS = 1800
ENV = {**os.environ, "LC_ALL": "C.UTF-8", "KCFLAGS": "-w", "CK_DEFAULT_TIMEOUT": "15", "CK_TIMEOUT_MULTIPLIER": "4"}
# Without a repair, functions may be unused. A test runs alone by its name through select.c.
MAKE = ["make", "--no-print-directory", "-j2", "WARN=-w"]
SELECT = f"LDFLAGS={OUT}/select.o -Wl,--wrap=_tcase_add_test"


class Mistake(Exception):
    """An entry that proves nothing: its text does not match, the tree does not build, or its test
    fails with the repair.
    """


@dataclass
class Test:
    """@kind: unit, asan, plain, run, a key of BOOTS, or a machine of driver_repairs."""
    text: str
    kind: str
    binary: str = ""
    names: list = field(default_factory=list)

    @classmethod
    def read(cls, text):
        kind, _, rest = text.partition(":")
        if kind in ("run", *BOOTS, *driver_repairs.MACHINES):
            return cls(text, kind, rest.strip())
        kind, unit = (kind, rest) if kind in ("asan", "plain") else ("unit", text)
        binary, _, names = unit.partition(":")
        if not re.fullmatch(r"test_\w+", binary) or not re.fullmatch(r"\w+(,\w+)*", names):
            raise Mistake(f"no test: {text}")
        return cls(text, kind, binary, names.split(","))

    @property
    def dir(self):
        return "build/asan" if self.kind == "asan" else "build"


@dataclass
class Edit:
    path: str
    repaired: str = ""
    without: str = ""

    def add(self, line):
        if line[:1] in (" ", "+", ""):
            self.repaired += line[1:] + "\n"
        if line[:1] in (" ", "-", ""):
            self.without += line[1:] + "\n"

    def take_out(self, text):
        """@text, which has whole lines of the repair exactly once, without it."""
        count = ("\n" + text).count("\n" + self.repaired) if self.repaired else 0
        if count != 1:
            raise Mistake(f"{self.path} has the text {count} times: {self.repaired.strip()[:60]!r}")
        at = ("\n" + text).index("\n" + self.repaired)
        return text[:at] + self.without + text[at + len(self.repaired):]


@dataclass
class Repair:
    point: str
    what: str
    tests: list = field(default_factory=list)
    edits: list = field(default_factory=list)

    def __str__(self):
        return f"{self.point} {self.what}"

    def texts(self, tree=TREE):
        """The changed files of @tree by path: (original, without the repair)."""
        found = {}
        for e in self.edits:
            original, text = found.get(e.path) or [(tree / e.path).read_text()] * 2
            found[e.path] = original, e.take_out(text)
        return found


def read_line(repairs, edit, line):
    """One line of the list; returns the edit that following lines belong to."""
    word, _, rest = line.partition(" ")
    if edit and line[:1] in (" ", "+", "-", ""):
        edit.add(line)
        return edit
    if word == "point":
        point, _, what = rest.partition(" ")
        repairs.append(Repair(point, what))
        return None
    if word == "test" and repairs:
        repairs[-1].tests.append(Test.read(rest))
        return None
    if word in ("file", "@@") and repairs:
        repairs[-1].edits.append(Edit(rest if word == "file" else repairs[-1].edits[-1].path))
        return repairs[-1].edits[-1]
    raise Mistake(f"a line that belongs to no entry: {line}")


def read_list(path):
    repairs, edit, blank = [], None, 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("#"):
            continue
        if not line:                    # an empty line is text only where a line of text follows
            blank += 1
            continue
        try:
            if edit and line[:1] in (" ", "+", "-"):
                for _ in range(blank):
                    edit.add("")
            edit, blank = read_line(repairs, edit, line), 0
        except Mistake as e:
            raise SystemExit(f"{path.relative_to(ROOT)}:{number}: {e}")
    for r in repairs:
        if not r.tests or not r.edits or any(e.repaired == e.without for e in r.edits):
            raise SystemExit(f"{path.relative_to(ROOT)}: an entry without test, file or difference: {r}")
    return repairs


def copy_tree():
    """Copies the files that git tracks or would add, and deletes from the copy those that the tree
    lacks.
    """
    listed = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            check=True).stdout.decode().split("\0")
    files = {n for n in listed if n and (ROOT / n).is_file()}
    TREE.mkdir(parents=True, exist_ok=True)
    for here, folders, names in os.walk(TREE):
        folders[:] = [f for f in folders if os.path.relpath(os.path.join(here, f), TREE) != "build"]
        for path in (os.path.join(here, n) for n in names):
            if os.path.relpath(path, TREE) not in files:
                os.unlink(path)
    for name in files:
        source, target = ROOT / name, TREE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy(source, target)


def run(args, seconds, env=None):
    """A command in the copy: its exit status, or None after its time."""
    with open(LOG, "wb") as log:
        child = subprocess.Popen(args, cwd=TREE, env={**ENV, **(env or {})}, stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=log, start_new_session=True)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        kmod.end_group(child)


def output():
    return LOG.read_text(errors="replace")


def build(tests):
    """Builds what the tests need; a script that boots a machine builds by itself."""
    for folder in sorted({t.dir for t in tests if t.kind not in BOOTS}):
        targets = sorted({f"{folder}/unit/{t.binary}" for t in tests if t.dir == folder and t.kind in ("unit", "asan", "plain")})
        options = [f"BUILD={folder}", SELECT] + (["SAN=1", "OPT=-O1"] if folder == "build/asan" else [])
        if run(MAKE + options + ["all"] + targets, 1800) != 0:
            raise Mistake("does not build:\n" + "\n".join(output().splitlines()[-8:]))


def run_unit(test):
    work = OUT / "work/repairs"
    work.mkdir(parents=True, exist_ok=True)
    work.chmod(0o777)
    env = {"MUTANTS_TESTS": ",".join(test.names), "MUTANTS_CPU": "120"}
    if test.kind == "asan":
        env["MUTANTS_MEMORY"] = "unlimited"
    command = [str(TREE / test.dir / "unit" / test.binary)]
    if test.kind != "plain":
        command = [str(SANDBOX), str(work), "--"] + command
    status = run(command, TEST_SECONDS * load(), env)
    checks = re.search(r"^\d+%: Checks: (\d+)", output(), re.M)
    if status == 0 and (not checks or int(checks.group(1)) < len(test.names)):
        raise Mistake(f"{test.text}: there is no such test")
    return status == 0


def lend_machines():
    """The VM's root and the kernel of arm64, which take long to make, for the copy."""
    if (ROOT / "build/vm").exists() and not (TREE / "build/vm").exists():
        (TREE / "build").mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", "--sparse=always", str(ROOT / "build/vm"), str(TREE / "build/")], check=True)
    (TREE / "build/arm64").mkdir(parents=True, exist_ok=True)
    for part in (ROOT / "build/arm64").glob("*"):
        target = TREE / "build/arm64" / part.name
        if part.name != "out" and not target.exists():
            target.symlink_to(part)


def run_vm(test):
    lend_machines()
    for _ in range(kmod.ATTEMPTS):
        status = run([*BOOTS[test.kind], test.binary], VM_SECONDS, {"RIVULET_ARM64_LIMIT": "300"})
        if kmod.failure(output()):
            return False
        if status == 0 and kmod.passed(output()):
            return True
    raise Mistake(f"{test.text}: no verdict, exit status {status}:\n" + "\n".join(output().splitlines()[-8:]))


def passes(test):
    if test.kind in BOOTS:
        return run_vm(test)
    if test.kind == "run":
        return run(["bash", "-c", test.binary], TEST_SECONDS * load()) == 0
    return run_unit(test)


def failure():
    for line in output().splitlines():
        if re.search(r":[FE]:|^not ok|^FAIL", line):
            return line.strip()[:160]
    return kmod.failure(output()) or (output().splitlines() or ["no output"])[-1][:160]


def unsound(tests):
    """Returns what is wrong with the tests when all repairs are applied, by their text."""
    wrong = {}
    for test in {t.text: t for t in tests}.values():
        try:
            if not passes(test) and not passes(test):
                wrong[test.text] = f"{test.text} fails with the repair: {failure()}"
        except Mistake as e:
            wrong[test.text] = str(e)
    return wrong


def seen(repair):
    """Returns whether each of the tests fails twice in a row without the repair, and why the first
    one does.
    """
    why = []
    for test in repair.tests:
        if passes(test):
            return False, f"{test.text} passes"
        why.append(failure())
        if test.kind not in BOOTS and passes(test):
            return False, f"{test.text} passes at times"
    return True, why[0]


def try_one(repair, wrong):
    for test in repair.tests:
        if test.text in wrong:
            raise Mistake(wrong[test.text])
    texts = repair.texts()
    try:
        for path, (_, without) in texts.items():
            (TREE / path).write_text(without)
        build(repair.tests)
        return seen(repair)
    finally:
        for path, (original, _) in texts.items():
            (TREE / path).write_text(original)


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--point", default="", help="only the entries of this point, or of this section: 3.1, 3")
    p.add_argument("--list", action="store_true", help="only print the entries")
    p.add_argument("--match", action="store_true", help="only print the entries that do not match the tree")
    return p.parse_args()


def chosen(args):
    found = [r for name in LISTS for r in read_list(ROOT / "tests/mutants" / name)
             if not args.point or r.point == args.point or r.point.startswith(args.point + ".")]
    if not found:
        raise SystemExit(f"repairs: no entry for point {args.point}")
    return found


def stale(repairs):
    """Returns a line for each entry that cannot be taken out of the present tree."""
    for r in repairs:
        try:
            r.texts(ROOT)
        except (Mistake, OSError) as e:
            yield f"{r}: {e}"


def try_all(repairs, report):
    """Returns how many repairs are detected by all of their tests."""
    good = 0
    tests = [t for r in repairs for t in r.tests]
    if tests:
        build(tests)
    wrong = unsound(tests)
    for number, r in enumerate(repairs, 1):
        try:
            ok, why = try_one(r, wrong)
            state = "seen" if ok else "NOT SEEN"
        except Mistake as e:
            ok, state, why = False, "MISTAKE", e
        good += ok
        report(number, r, state, why)
    return good


def try_driver(repairs, report):
    """The same for those whose tests share a boot."""
    if not repairs:
        return 0
    driver = driver_repairs.Driver(TREE, run, output, Mistake)
    driver.prepare(ROOT / "build/vm")
    return driver_repairs.try_all(repairs, driver, report)


def main():
    args = options()
    repairs = chosen(args)
    if args.list:
        for r in repairs:
            print(f"{r}\n    {', '.join(t.text for t in r.tests)}")
        return 0
    if args.match:
        wrong = list(stale(repairs))
        print("\n".join(wrong), end="\n" if wrong else "")
        return 1 if wrong else 0
    hook("select")
    copy_tree()
    started = time.monotonic()

    def report(number, repair, state, why):
        print(f"{number:3d} {time.monotonic() - started:5.0f} s  {state:8s} {repair}\n      {why}", flush=True)

    try:
        good = try_all([r for r in repairs if not driver_repairs.is_for(r)], report)
        good += try_driver([r for r in repairs if driver_repairs.is_for(r)], report)
    except Mistake as e:
        raise SystemExit(f"repairs: {e}")
    print(f"figure repairs.tried {len(repairs)} repairs")
    print(f"figure repairs.seen {good} repairs")
    return 0 if good == len(repairs) else 1


if __name__ == "__main__":
    sys.exit(main())
