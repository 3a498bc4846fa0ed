# SPDX-License-Identifier: MIT
"""Which unit test executes which line, measured once for every state of the test binaries."""
import bisect
import json
import os
import re
import resource
import shutil
import subprocess
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from build import FOLDERS, OUT, PROGRAM_TESTS, ROOT, digest, test_path
from sandbox import Sandbox


ATTEMPTS = 3


class Module:
    """Basic blocks of a binary, and the source lines of each."""

    def __init__(self, path):
        self.calls = self.call_sites(path)
        self.lines = defaultdict(set)
        returns = [r for _, r, _ in self.calls]
        for name, line, address in self.line_table(path):
            block = self.block_of(address)
            if block is not None:
                self.lines[returns[block]].add((name, line))

    @staticmethod
    def call_sites(path):
        """(address, return address, start of the function) of the calls that mark blocks."""
        found, start, marked = [], 0, None
        text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True,
                              cwd=ROOT, check=True).stdout
        for line in text.splitlines():
            head = re.match(r"^([0-9a-f]+) <", line)
            if head:
                start = int(head.group(1), 16)
                continue
            at = re.match(r"^ *([0-9a-f]+):", line)
            if at and marked is not None:
                found.append((marked, int(at.group(1), 16), start))
                marked = None
            if at and "call" in line and "<__sanitizer_cov_trace_pc>" in line:
                marked = int(at.group(1), 16)
        return found

    @staticmethod
    def line_table(path):
        text = subprocess.run(["readelf", "-wL", "-W", path], capture_output=True, text=True, cwd=ROOT,
                              stderr=None, check=True).stdout
        name = ""
        for line in text.splitlines():
            head = re.match(r"^(?:CU: )?(\S+\.[ch]):(?:\[\+\+\])?$", line)
            if head:
                name = os.path.normpath(head.group(1))
                continue
            entry = re.match(r"^\S+\s+(\d+)\s+0x([0-9a-f]+)", line)
            if entry and name.startswith(FOLDERS) and name.endswith(".c"):
                yield name, int(entry.group(1)), int(entry.group(2), 16)

    def block_of(self, address):
        """Returns the block at an address. The call that marks it stands before it, in a function's
        prologue behind it.
        """
        i = bisect.bisect_right(self.calls, (address, float("inf"), 0)) - 1
        if i + 1 < len(self.calls) and self.calls[i + 1][2] <= address:
            start = self.calls[i + 1][2]
            if i < 0 or self.calls[i][2] != start:
                return i + 1
        return i if i >= 0 else None

    def all_lines(self):
        return set().union(*self.lines.values()) if self.lines else set()

    def covered(self, marks):
        """The lines of a file of marks."""
        with open(marks, "rb") as f:
            data = f.read()
        lines = set()
        for m in re.finditer(b"\1", data):
            lines |= self.lines.get(m.start(), set())
        return lines


def names_of(build, binary):
    """Names of the tests of a binary; a program that is one test has one without a name."""
    if binary in PROGRAM_TESTS:
        return [""]
    out = subprocess.run([str(ROOT / build.dir / "unit" / binary)], env={**os.environ, "MUTANTS_LIST": "1"}, cwd=ROOT,
                         capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"^test (\S+)$", out, re.M)))


class Coverage:
    """Tests by number, what they cover and how long they take."""

    def __init__(self, build, jobs):
        self.build, self.jobs = build, jobs
        self.cache = OUT / "coverage"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.modules = {}
        self.programs = [b for b in build.links if "/unit/" not in b and "/tests/" not in b]
        self.tests = []                                   # (binary, name, seconds, modules)
        self.numbers = {}                                 # their indices by binary:name
        self.by_line = defaultdict(lambda: defaultdict(list))
        self.by_file = defaultdict(set)
        self.code = defaultdict(set)                      # lines that have code, by file

    def read(self, name):
        return (ROOT / name).read_bytes()

    def module(self, name):
        if name not in self.modules:
            path = self.build.binary(name)
            self.modules[name] = Module(path) if path else None
        return self.modules[name]

    def measure(self, binaries):
        for program in self.programs:
            for path, lines in self.code_of(self.module(os.path.basename(program))).items():
                self.code[path].update(lines)
        with ThreadPoolExecutor(self.jobs) as pool:
            for rows in pool.map(self.measured, binaries):
                self.take(rows)

    def measured(self, binary):
        """The rows of a binary; those of an earlier run hold for the same binary and the same started programs."""
        path = self.cache / f"{binary}.json"
        key = digest(self.read(f"{self.build.dir}/{test_path(binary)}"))
        rows = json.loads(path.read_text()) if path.exists() else None
        if rows and (rows["key"] != key or self.of_programs(rows) != rows["programs"]):
            rows = None
        if not rows or any(row["verdict"] != "passed" for row in rows["tests"]):
            rows = self.run_binary(binary, rows)
            rows.update(key=key, programs=self.of_programs(rows))
            path.with_suffix(".tmp").write_text(json.dumps(rows))
            path.with_suffix(".tmp").rename(path)
        return rows

    def of_programs(self, rows):
        """The digests of the programs and libraries that the tests of a binary execute, by name."""
        used = {m for row in rows["tests"] for m in row["modules"]}
        return {p: digest(self.read(p)) for p in self.programs if os.path.basename(p) in used}

    def run_binary(self, binary, known):
        """The rows of a binary's tests; of @known rows those that passed are kept."""
        rows = {"code": self.code_of(self.module(binary)), "tests": []}
        passed = {row["name"]: row for row in known["tests"] if row["verdict"] == "passed"} if known else {}
        for name in names_of(self.build, binary):
            rows["tests"].append(passed.get(name) or self.run_test(binary, name))
        return rows

    @staticmethod
    def code_of(module):
        code = defaultdict(list)
        for name, line in sorted(module.all_lines()):
            code[name].append(line)
        return code

    def run_test(self, binary, name):
        """One row; a test that fails is repeated, because the machine may be busy."""
        for _ in range(ATTEMPTS):
            row = self.run_once(binary, name)
            if row["verdict"] == "passed":
                break
        return row

    def run_once(self, binary, name):
        box = Sandbox(f"trace-{binary}")
        marks = box.dir / "marks"
        shutil.rmtree(marks, ignore_errors=True)
        marks.mkdir()
        marks.chmod(0o777)
        start = time.monotonic()
        verdict = box.run(self.build, binary, [name], 300, 120, {"MUTANTS_TRACE": str(marks)})
        seconds = time.monotonic() - start
        lines, modules = set(), []
        for f in marks.iterdir():
            module = self.module(f.name)
            if module:
                modules.append(f.name)
                lines |= module.covered(f)
        by_file = defaultdict(list)
        for path, line in sorted(lines):
            by_file[path].append(line)
        box.remove()
        return {"binary": binary, "name": name, "seconds": seconds, "verdict": verdict, "modules": modules,
                "lines": by_file}

    def take(self, rows):
        for path, lines in rows["code"].items():
            self.code[path].update(lines)
        for row in rows["tests"]:
            if row["verdict"] != "passed":
                print(f"mutants: not used, {row['verdict']} in the sandbox: {row['binary']} {row['name']}", flush=True)
                continue
            number = len(self.tests)
            self.numbers[f"{row['binary']}:{row['name']}"] = number
            self.tests.append((row["binary"], row["name"], row["seconds"], row["modules"]))
            for path, lines in row["lines"].items():
                self.by_file[path].add(number)
                for line in lines:
                    self.by_line[path][line].append(number)

    def covering(self, site):
        """Tests of a site: of its line, or of the last line with code before it. Data: those of its file."""
        if not site.function:
            return sorted(self.by_file[site.path])
        code = sorted(self.code[site.path])
        i = bisect.bisect_right(code, site.line) - 1
        return self.by_line[site.path].get(code[i], []) if i >= 0 else []

    def names(self, site):
        """The covering tests of a site as binary:name."""
        return [f"{self.tests[t][0]}:{self.tests[t][1]}" for t in self.covering(site)]
