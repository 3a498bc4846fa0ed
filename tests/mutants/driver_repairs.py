# SPDX-License-Identifier: MIT
"""Entries of repairs-driver.txt: one boot of a VM tries many modules, each without one repair. See repairs.py."""
import re
import shutil
import subprocess
from dataclasses import dataclass

import kmod

# How each kind of machine is started: the kernel's options, and those of vm-run.sh.
MACHINES = {
    "kmod": ("", ["--board", "build/tests/vm/zu3eg-64.board", "--battery", "mwh=20000,factor=0"]),
    "bounce": ("swiotlb=force", []),
    "halves": ("numa=fake=2", ["--memory", "3072", "--board", "cyclonev-64"]),
}
BOOT_SECONDS = 240            # until the first module is tried, and of a module
BASE = "base"                 # the module with all repairs


@dataclass
class Trial:
    """A module and the tests that are run with it."""
    name: str
    tests: list
    verdict: str = ""         # "passed", "failed", "died" with the kernel, or "" where it was not tried
    why: str = ""


def is_for(repair):
    return all(t.kind in MACHINES for t in repair.tests)


class Driver:
    """The tree that the modules are built in: @run is repairs.run, @output what the last command printed."""

    def __init__(self, tree, run, output, mistake):
        self.tree, self.run, self.output, self.mistake = tree, run, output, mistake
        self.modules = tree / "build/repairs"

    def make(self, *args):
        if self.run(["make", "--no-print-directory", "-j2", *args], 1800) != 0:
            raise self.mistake("does not build:\n" + "\n".join(self.output().splitlines()[-8:]))

    def prepare(self, vm):
        self.make("all", "modules", "build/tests/vm/kmod_test", "build/tests/kmod/harness/harness.ko",
                  "build/tests/vm/zu3eg-64.board")
        shutil.rmtree(self.tree / "build/stage-repairs", ignore_errors=True)
        self.make("install", f"DESTDIR={self.tree}/build/stage-repairs")
        shutil.rmtree(self.modules, ignore_errors=True)
        self.modules.mkdir(parents=True)
        if not (self.tree / "build/vm").exists():
            subprocess.run(["cp", "-a", "--sparse=always", str(vm), str(self.tree / "build/")], check=True)
        self.keep(BASE)

    def keep(self, name):
        shutil.copy(self.tree / "build/kmod/rivulet.ko", self.modules / f"{name}.ko")

    def build(self, repair, name):
        """Builds a module without the repair. The sources are restored afterwards."""
        texts = repair.texts()
        try:
            for path, (_, without) in texts.items():
                (self.tree / path).write_text(without)
            self.make("modules")
            self.keep(name)
        finally:
            for path, (original, _) in texts.items():
                (self.tree / path).write_text(original)

    def boot(self, machine, trials):
        """Tries modules until one leaves the machine unusable, and stores the verdicts in the
        trials.
        """
        option, args = MACHINES[machine]
        (self.modules / "plan").write_text("".join(f"{t.name} {' '.join(t.tests)}\n" for t in trials))
        seconds = BOOT_SECONDS * (1 + len(trials))
        status = self.run(["scripts/vm-run.sh", "--stage", "build/stage-repairs", "--timeout", str(seconds), *args,
                           "check", "tests/vm/guest-repairs"], seconds + 60,
                          {"RIVULET_VM_APPEND": "systemd.show_status=false " + option})
        read_verdicts(self.output(), {t.name: t for t in trials}, status)

    def try_on(self, machine, trials):
        left = trials
        while left:
            self.boot(machine, left)
            after = [t for t in left if not t.verdict]
            if len(after) == len(left):
                raise self.mistake(f"the machine {machine} tried nothing:\n" +
                                   "\n".join(self.output().splitlines()[-8:]))
            left = after


def read_verdicts(log, trials, status):
    """The guest prints "# trial NAME", the tests, and "# verdict NAME passed|failed"."""
    begun, complaints = None, [m.group() for m in kmod.COMPLAINT.finditer(log[log.rfind("\n# trial "):])]
    for line in log.splitlines():
        if m := re.match(r"# trial (\S+)$", line):
            begun = trials.get(m.group(1))
        elif (m := re.match(r"# verdict (\S+) (passed|failed)$", line)) and m.group(1) in trials:
            trials[m.group(1)].verdict = m.group(2)
            begun = None
        elif begun and not begun.why and (line.startswith("not ok") or re.match(r"# .*\.c:\d+:", line)):
            begun.why = line.strip()[:160]
    if begun and complaints:
        begun.verdict, begun.why = "died", complaints[0].strip()[:160]
    elif begun:
        begun.verdict, begun.why = "unclear", f"no verdict, exit status {status}"


def judge(trials, base):
    """Returns whether each test of a repair failed without it, and the reason."""
    for t in trials:
        if base[t.tests[0]].verdict != "passed":
            return False, f"{t.tests[0]} fails with the repair: {base[t.tests[0]].why}"
        if t.verdict not in ("failed", "died"):
            return False, f"{t.tests[0]}: {t.verdict} {t.why}".strip()
    return True, trials[0].why


def try_all(repairs, driver, report):
    """Returns how many of the repairs are detected by all of their tests. @report prints the verdict
    on one.
    """
    machines, mine, good = {}, {}, 0
    for number, r in enumerate(repairs, 1):
        try:
            driver.build(r, str(number))
        except driver.mistake as e:
            report(number, r, "MISTAKE", str(e))
            continue
        mine[number] = []
        for i, test in enumerate(r.tests):
            module = f"{number}.{i}"
            shutil.copy(driver.modules / f"{number}.ko", driver.modules / f"{module}.ko")
            mine[number].append(Trial(module, [test.binary]))
            machines.setdefault(test.kind, []).append(mine[number][-1])
    base = {}
    for machine, trials in machines.items():
        names = sorted({t.tests[0] for t in trials})
        for i, name in enumerate(names):
            base[name] = Trial(f"{BASE}.{i}", [name])
            shutil.copy(driver.modules / f"{BASE}.ko", driver.modules / f"{BASE}.{i}.ko")
        driver.try_on(machine, [base[n] for n in names] + trials)
    for number, trials in mine.items():
        ok, why = judge(trials, base)
        report(number, repairs[number - 1], "seen" if ok else "NOT SEEN", why)
        good += ok
    return good
