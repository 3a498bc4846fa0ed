# SPDX-License-Identifier: MIT
"""The two builds of a mutation run, and the commands with which single files of them are made again."""
import hashlib
import os
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build/mutants"
FOLDERS = ("compiler", "daemon", "kernels", "libclient", "plan", "runtime", "sim", "tool")
TRACE_OPT = "-O0 -fsanitize-coverage=trace-pc"
BASE_OPT = "-O2 -g0"
ASAN_OPT = "-O1 -g0"


def run(args, **kw):
    return subprocess.run(args, cwd=ROOT, check=True, **kw)


def unit_tests():
    return sorted(p.stem for p in (ROOT / "tests/unit").glob("test_*.c"))


# Conformance programs of make check that take little time, with their arguments.
PROGRAM_TESTS = {
    "check_onnx": ["/usr/share/libonnx-testdata/data/node"],
    "check_conv": ["tests/data/conv_500.bin", "zu3eg-64", "zu3eg-256", "cyclonev-64"],
}


def test_path(name):
    """Path of a test's binary in a build folder."""
    return f"tests/{name}" if name in PROGRAM_TESTS else f"unit/{name}"


def hook(name):
    """The object of trace.c or select.c."""
    OUT.mkdir(parents=True, exist_ok=True)
    out = OUT / f"{name}.o"
    source = ROOT / f"tests/mutants/{name}.c"
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        run(["cc", "-O2", "-fPIC", "-Wall", "-D_GNU_SOURCE", "-c", "-o", str(out), str(source)])
    return str(out)


class Build:
    """A build folder: base (as the product is compiled), trace (marks its basic blocks) or asan."""

    def __init__(self, name):
        self.dir = f"build/mutants/{name}"
        hooks = [hook("select")] + ([hook("trace")] if name == "trace" else [])
        opt = {"trace": TRACE_OPT, "base": BASE_OPT, "asan": ASAN_OPT}[name]
        self.make = ["make", f"BUILD={self.dir}", f"OPT={opt}",
                     "LDFLAGS=" + " ".join(hooks) + " -Wl,--wrap=_tcase_add_test"]
        if name == "asan":
            self.make.append("SAN=1")
        self.targets = ["all"] + [f"{self.dir}/{test_path(t)}" for t in (*unit_tests(), *PROGRAM_TESTS)]
        self.compiles, self.links, self.archives = {}, {}, {}

    def build(self, jobs):
        log = OUT / "build.log"
        with open(log, "w") as f:
            made = subprocess.run(self.make + [f"-j{jobs}"] + self.targets, cwd=ROOT, stdout=f, stderr=f)
        if made.returncode:
            raise SystemExit(f"mutants: the build fails, see {log}")
        self.read_commands()

    def read_commands(self):
        plan = run(self.make + ["-n", "-B"] + self.targets, capture_output=True, text=True).stdout
        for line in plan.replace("\\\n", " ").splitlines():
            if line.startswith("ar rcs "):
                words = line.split()
                self.archives[words[2]] = set(words[3:])
            if not line.startswith("cc "):
                continue
            words = shlex.split(line)
            out = words[words.index("-o") + 1]
            if "-c" in words:
                self.compiles[words[-1]] = words
            else:
                self.links[out] = words

    def object_of(self, source):
        return f"{self.dir}/obj/{source[:-2]}.o"

    def uses(self, binary, source):
        """Whether a binary is linked from a source, by itself or by an archive."""
        obj = self.object_of(source)
        return any(w == obj or obj in self.archives.get(w, ()) for w in self.links[binary])

    def binary(self, module):
        """The path of a binary by its file name."""
        return next((b for b in self.links if os.path.basename(b) == module), None)

    def compile(self, source, text, out):
        """Compiles @text in the place of a source; the result does not depend on where it is written."""
        words = [w for w in self.compiles[source] if w not in ("-MMD", "-MP", "-Werror")]
        words = words[:words.index("-c")] + ["-w", "-iquote", os.path.dirname(source), "-x", "c", "-c", "-o", str(out), "-"]
        done = subprocess.run(words, cwd=ROOT, input=f'# 1 "{source}"\n{text}', text=True,
                              capture_output=True, timeout=600)
        return done.returncode == 0

    def link(self, binary, source, obj, out):
        """Links a binary with @obj in the place of a source's object: first, so that no archive's is taken."""
        words = [w for w in self.links[binary] if w != self.object_of(source)]
        at = words.index("-o")
        words[at:at + 2] = ["-o", str(out), str(obj), "-Wl,-z,muldefs"]
        run(words, capture_output=True)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def sources(folders=FOLDERS):
    """The C sources of some folders; programs that only write documents (gen/) are no part of the product."""
    found = []
    for folder in folders:
        found += [str(p.relative_to(ROOT)) for p in (ROOT / folder).rglob("*.c")]
    return sorted(p for p in found if not re.search(r"(^|/)gen/", p))
