# SPDX-License-Identifier: MIT
"""Runs unit tests in namespaces of their own, under limits; see the script sandbox."""
import os
import shutil
import signal
import subprocess
import threading

from build import OUT, PROGRAM_TESTS, ROOT, test_path

SCRIPT = str(ROOT / "tests/mutants/sandbox")


def load():
    """How many times slower than alone a process may run, by the machine's load."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class Stopped(Exception):
    """The run was interrupted: no further test is started."""


class Sandbox:
    """A folder that the tests may write, and the processes in it."""
    running = set()
    stopped = False
    lock = threading.Lock()

    def __init__(self, name):
        self.dir = OUT / "work" / name
        self.dir.mkdir(parents=True, exist_ok=True)
        self.dir.chmod(0o777)

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, build, binary, tests, wall, cpu, env=None, binds=()):
        """Runs tests of a binary: "passed", "failed" or "timeout". @cpu: seconds of each process."""
        command = [SCRIPT, str(self.dir)] + [f"{ROOT / a}={ROOT / b}" for a, b in binds] + ["--", str(ROOT / build.dir / test_path(binary))]
        command += PROGRAM_TESTS.get(binary, [])
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "MUTANTS_TESTS": ",".join(tests),
                       "MUTANTS_CPU": str(int(cpu) + 1), "CK_DEFAULT_TIMEOUT": "60", "CK_TIMEOUT_MULTIPLIER": "4",
                       **(env or {})}
        with open(self.dir / "output", "wb") as out:
            with self.lock:
                if Sandbox.stopped:
                    raise Stopped
                child = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                         stderr=out, start_new_session=True)
                self.running.add(child.pid)
            try:
                status = child.wait(wall * load())
                return "passed" if status == 0 else "failed"
            except subprocess.TimeoutExpired:
                return "timeout"
            finally:
                self.end(child)

    def end(self, child):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        with self.lock:
            self.running.discard(child.pid)

    def failure(self):
        """The first failed check of the last run."""
        for line in (self.dir / "output").read_text(errors="replace").splitlines():
            if ":F:" in line or ":E:" in line:
                return line.strip()[:200]
        return ""

    @classmethod
    def end_all(cls):
        with cls.lock:
            cls.stopped = True
            for pid in cls.running:
                try:
                    os.killpg(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
