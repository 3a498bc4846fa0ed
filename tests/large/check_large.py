#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles and runs a model of more than 2 GiB.

check_large.py RIVULET FOLDER

Both commands map the files. Their memory that no file backs, which the kernel cannot reclaim, is
sampled 20 times a second: that of compiling stays below 64 MiB, that of running below 256 MiB more
than the program, of which the simulated device has a copy.
"""
import os
import subprocess
import sys
import time

import numpy as np

import large_model

COMPILE_BAR, RUN_BAR = 64, 256	# MiB


def anonymous(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("RssAnon")), 0) / 1024
    except OSError:
        return 0


def run(command):
    """(whether the command succeeded, MiB that no file backs, seconds)"""
    start, most = time.monotonic(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, anonymous(process.pid))
            time.sleep(0.05)
    return process.returncode == 0, most, time.monotonic() - start


def main():
    rivulet, folder = sys.argv[1:3]
    model, program, value = (os.path.join(folder, n) for n in ("model.onnx", "program.rvp", "x.npy"))
    sys.argv = [sys.argv[0], folder]
    large_model.main()
    ok, most, seconds = run([rivulet, "compile", "--cpu-only", model, "-o", program])
    size = os.path.getsize(program) / 2 ** 20 if ok else 0
    print(f"figure large.program {size:.0f} MiB")
    print(f"figure large.compile.time {seconds:.1f} s")
    print(f"figure large.compile.memory {most:.0f} MiB")
    failed = not ok or size < 2048 or most > COMPILE_BAR
    ok, most, seconds = run([rivulet, "run", program, "--device", "sim:zu3eg-64", "--output", folder,
                             "--input", f"x={value}"]) if ok else (False, 0, 0)
    print(f"figure large.run.memory {most:.0f} MiB")
    if ok:
        y = np.load(os.path.join(folder, f"y{large_model.MATRICES - 1}.npy"))
        ok = np.array_equal(y, large_model.result())
    failed |= not ok or most > size + RUN_BAR
    os.remove(os.path.join(folder, "weights.bin"))
    if os.path.exists(program):
        os.remove(program)
    print(f"{'not ok' if failed else 'ok'} - a model of more than 2 GiB is compiled and run")
    return failed


if __name__ == "__main__":
    sys.exit(main())
