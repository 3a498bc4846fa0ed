#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantises the convolutional models of real.py with rivulet and with onnxruntime, and compares both
with the float model on inputs that neither has seen.

real_quantised.py RIVULET FOLDER [MODEL...]

rivulet's quantised model is run by onnxruntime, which computes the device's bytes from the exported
ONNX model; the first inputs are also run on rivulet's CPU steps, and values that are further apart
than the tables of numerics.md allow fail. onnxruntime's model is the better one of per-channel
min-max and, where its quantiser can, percentile 99.99. The SNR of a model is that of its worst
output: power about the mean over power of the error, pooled over all inputs.

basic-pitch, which computes spectra, loses too much with every layer quantised, by either quantiser;
rivulet keeps layers float by --mixed. Its share on the NPU is that of the whole quantised model.

Prints one line per model and the figures real.snr.deficit.max and real.npu.share.min.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, quantize_static

import real

CALIBRATION = 16
INPUTS = 64
DEFICIT_BAR = 1.0	# dB
SHARE_BAR = 98.0	# %
MEDIAN_BAR = 92.0	# %, of the peak
RATIO_BAR = 95.0	# %, of what the bound of a model allows
BOARD = "zu3eg-64"
ROWS, CHANNELS, WORD, LANES = 16, 4, 16, 8	# of its array: rows and operands of a pass, of a word; of its ALU
PORT, BURST, BURST_GAP, LATENCY = 16, 256, 2, 64	# bytes a cycle, bytes, cycles, cycles of a burst
EXPORTED = "ours.onnx"
QDQ_OPSET = 13		# the first one that quantize_static takes with scales per channel

def chord(rng, shape):
    """Three notes with overtones, as loud as speech, at 22,050 samples a second."""
    t = np.arange(shape[1]) / 22050
    wave = sum(np.sin(2 * np.pi * 440 * 2 ** ((note - 69) / 12) * k * t) / k
               for note in rng.choice(np.arange(45, 80), 3, replace=False) for k in range(1, 6))
    return (0.3 * wave / np.abs(wave).max()).astype(np.float32)[:, None]


# File of real.py's list, shape of the input, and how samples of 0 to 1 become its values. Sound has no
# such samples.
VISION = [
    ("orientation_orinet_fp32.onnx", (1, 3, 320, 320), lambda x: x),
    ("open-nsfw.onnx", (1, 224, 224, 3), lambda x: x * 255 - np.float32([104, 117, 123])),
    ("pnet.onnx", (1, 48, 48, 3), lambda x: (x * 255 - 127.5) / 128),
    ("rnet.onnx", (1, 24, 24, 3), lambda x: (x * 255 - 127.5) / 128),
    ("onet.onnx", (1, 48, 48, 3), lambda x: (x * 255 - 127.5) / 128),
    ("common_det.onnx", (1, 3, 416, 416), lambda x: x * 255),
    ("nmp.onnx", (1, 43844, 1), None),
]
MIXED = {"nmp.onnx": 20}	# --mixed, dB


def picture(rng, height, width):
    """Waves, rectangles and noise: smooth parts, edges and texture."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    image = np.zeros((height, width, 3), np.float32) + rng.uniform(0, 1, 3)
    for _ in range(6):
        fy, fx = rng.uniform(0, 12, 2)
        wave = 2 * np.pi * (fy * y / height + fx * x / width)[..., None]
        image += rng.uniform(0, 0.3, 3) * np.sin(wave + rng.uniform(0, 2 * np.pi, 3))
    for _ in range(4):
        top, bottom = sorted(rng.integers(0, height, 2))
        left, right = sorted(rng.integers(0, width, 2))
        image[top:bottom, left:right] = rng.uniform(0, 1, 3)
    return np.clip(image + rng.normal(0, 0.02, image.shape), 0, 1).astype(np.float32)


def examples(shape, prepare, count, seed):
    rng = np.random.default_rng(seed)
    if prepare is None:
        yield from (chord(rng, shape)[None] for _ in range(count))
        return
    planes = shape[1] == 3
    height, width = shape[2:] if planes else shape[1:3]
    for _ in range(count):
        image = picture(rng, height, width)
        yield prepare(image.transpose(2, 0, 1) if planes else image)[None].astype(np.float32)


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # Without it, processors that lack VNNI saturate sums of uint8 times int8.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Reader(CalibrationDataReader):
    def __init__(self, name, values):
        self.values = iter([{name: v} for v in values])

    def get_next(self):
        return next(self.values, None)


def snr(want, got):
    """Of the worst output."""
    worst = np.inf
    for w, g in zip(zip(*want), zip(*got)):
        w, g = (np.concatenate([v.ravel() for v in side]).astype(np.float64) for side in (w, g))
        noise = ((w - g) ** 2).sum()
        worst = min(worst, 10 * np.log10(((w - w.mean()) ** 2).sum() / noise) if noise else np.inf)
    return worst


def run_all(path, values):
    s = session(path)
    name = s.get_inputs()[0].name
    return [s.run(None, {name: v}) for v in values]


def unshare(model):
    """onnxruntime's quantiser makes a constant that two convolutions share twice, under one name."""
    constants = {t.name: t for t in model.graph.initializer}
    used = set()
    for i, node in enumerate(n for n in model.graph.node if n.op_type == "Conv"):
        for k, name in enumerate(node.input):
            if name in used and name in constants:
                copy = onnx.TensorProto()
                copy.CopyFrom(constants[name])
                copy.name = node.input[k] = f"{name}__{i}"
                model.graph.initializer.append(copy)
            used.add(name)


def theirs(path, shape, calibration, values, want, folder):
    model = onnx.load(path)
    if next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")) < QDQ_OPSET:
        model = onnx.version_converter.convert_version(model, QDQ_OPSET)
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape):
        dim.dim_value = size
    unshare(model)
    plain, quantised = os.path.join(folder, "plain.onnx"), os.path.join(folder, "theirs.onnx")
    onnx.save(model, plain)
    name = model.graph.input[0].name
    best = -np.inf
    for method, extra in ((CalibrationMethod.MinMax, {}),
                          (CalibrationMethod.Percentile, {"CalibPercentile": 99.99})):
        try:
            quantize_static(plain, quantised, Reader(name, calibration), per_channel=True,
                            calibrate_method=method, extra_options=extra)
        except ValueError as why:    # a histogram of a tensor with hardly any range
            print(f"# {os.path.basename(path)}: onnxruntime's {method}: {why}")
            continue
        best = max(best, snr(want, run_all(quantised, values)))
    return best


def rivulet_run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def ours(rivulet, path, symbol, mixed, calibration, values, want, folder):
    """The SNR of our quantised model, and the share of values that onnxruntime computes otherwise."""
    examples_file, exported = os.path.join(folder, "examples.npy"), os.path.join(folder, EXPORTED)
    program = os.path.join(folder, "ours.rvp")
    np.save(examples_file, np.concatenate(calibration))
    rivulet_run([rivulet, "compile", path, "-o", program, "--cpu-only", "--export", exported,
                 "--calibrate", examples_file] + (["--symbol", str(symbol)] if symbol else []) +
                (["--mixed", str(mixed)] if mixed else []))
    got = run_all(exported, values)
    return snr(want, got), differing(rivulet, program, exported, values[:4], got, folder)


def differing(rivulet, program, exported, values, got, folder):
    s = session(exported)
    wrong = total = 0
    for value, outputs in zip(values, got):
        file = os.path.join(folder, "value.npy")
        np.save(file, value)
        rivulet_run([rivulet, "run", program, "--device", "sim:zu3eg-64", "--output", folder,
                     "--input", f"{s.get_inputs()[0].name}={file}"])
        for info, output in zip(s.get_outputs(), outputs):
            mine = real.load_output(folder, info.name)
            wrong += (np.abs(mine - output) > 1e-5 * np.abs(output).max()).sum()
            total += output.size
    return 100 * wrong / total


def explain(rivulet, path, symbol, calibration, folder):
    file = os.path.join(folder, "one.npy")
    np.save(file, calibration[0])
    report = json.loads(rivulet_run(
        [rivulet, "explain", path, "--board", BOARD, "--json", "--calibrate", file, "--range", "min-max"] +
        (["--symbol", str(symbol)] if symbol else [])))
    return report["explain"]


def share(report, path):
    """Percent of the multiplications of convolutions and matrix products that the NPU does."""
    layers = report["layers"]
    npu = sum(r["macs"] for r in layers if r["where"] == "npu")
    sizes = {n.name: n for n in onnx.load(path).graph.node}
    weights = {t.name: list(t.dims) for t in onnx.load(path).graph.initializer}
    cpu = 0
    for row in layers:
        node = sizes.get(row["node"])
        if row["where"] == "npu" or node is None or node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        dims = weights[node.input[1]]
        reduced = int(np.prod(dims[1:])) if node.op_type == "Conv" else max(dims)
        cpu += reduced * int(np.prod([int(d) for d in row["out"].split("x")]))
    return 100 * npu / (npu + cpu)


def constants(model):
    """The initializers, and the integers of those that the model dequantises, minus their zero points."""
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            values[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        if node.op_type == "DequantizeLinear" and node.input[0] in values:
            zero = values[node.input[2]].astype(np.int32) if len(node.input) > 2 else 0
            if np.any(zero):
                raise RuntimeError(f"{node.input[0]} has zero points that are not 0")
            values[node.output[0]] = values[node.input[0]].astype(np.int32)
    return values


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def inside(attrs, axis, size, results, taps):
    """Of one axis: how many results have which taps on the image, and not on its padding."""
    stride, dilation = (attrs.get(k, [1, 1])[axis] for k in ("strides", "dilations"))
    begin = attrs.get("pads", [0] * 4)[axis]
    return collections.Counter(
        tuple(k for k in range(taps) if 0 <= y * stride - begin + k * dilation < size) for y in range(results))


def passes(nonzero):
    """Of one pixel; @nonzero: taps x rows x operands, a word of WORD operands beside the other.

    A layer has one number of pairs for each row of a word, that of its fullest row, and another one for the last
    word of a tap, which may be shorter.
    """
    rows, operands = (-size % unit for size, unit in zip(nonzero.shape[1:], (ROWS, WORD)))
    padded = np.pad(nonzero, ((0, 0), (0, rows), (0, operands)))
    words = padded.shape[2] // WORD
    fullest = padded.reshape(*padded.shape[:2], words, WORD).sum(axis=3).max(axis=(0, 1))
    pairs = -(-np.append(np.full(words - 1, fullest[:-1].max(initial=0)), fullest[-1]) // CHANNELS)
    return padded.shape[0] * padded.shape[1] // ROWS * int(pairs.sum())


def conv_passes(attrs, w, image, out):
    """The passes of all pixels, in the mode of the fewest."""
    pixels = int(np.prod(out)) // w.shape[0]
    nonzero = w != 0
    if attrs.get("group", 1) > 1:    # lanes take any operands
        blocks = np.pad(nonzero.sum(axis=(1, 2, 3)), (0, -w.shape[0] % ROWS)).reshape(-1, ROWS).max(axis=1)
        return pixels * int((-(-blocks // CHANNELS)).sum())
    rows = inside(attrs, 0, image[2], out[2], w.shape[2])
    cols = inside(attrs, 1, image[3], out[3], w.shape[3])
    taps = sum(n * m * len(ys) * len(xs) for ys, n in rows.items() for xs, m in cols.items())
    direct = passes(nonzero.transpose(2, 3, 0, 1).reshape(-1, *w.shape[:2]))
    return min(out[0] * taps * direct // (w.shape[2] * w.shape[3]),
               pixels * passes(nonzero.reshape(1, w.shape[0], -1)))


def shapes(model, names, shape):
    """Those of the values @names, by a run."""
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n != model.graph.input[0].name)
    s = session(model.SerializeToString())
    results = s.run(None, {s.get_inputs()[0].name: np.zeros(shape, np.float32)})
    return dict(zip((o.name for o in s.get_outputs()), (r.shape for r in results)))


def products(path, shape):
    """(MACs, least passes, results in words of ROWS, weights that are not 0) of each convolution and
    matrix product of a quantised model."""
    model = onnx.load(path)
    weights = constants(model)
    nodes = [n for n in model.graph.node if n.op_type in ("Conv", "Gemm", "MatMul") and n.input[1] in weights]
    known = shapes(model, {name for n in nodes for name in (n.input[0], n.output[0])}, shape)
    for node in nodes:
        w, out, attrs = weights[node.input[1]], known[node.output[0]], attributes(node)
        if node.op_type == "Conv":
            least = conv_passes(attrs, w, known[node.input[0]], out)
        else:
            w = w if attrs.get("transB") else w.T
            least = int(np.prod(out)) // w.shape[0] * passes((w != 0)[None])
        pixels = int(np.prod(out)) // w.shape[0]
        yield pixels * w.size, least, pixels * -(-w.shape[0] // ROWS), np.count_nonzero(w)


def bound(path, shape):
    """(MACs, least cycles) of a quantised network on BOARD: those of the busiest of array, ALU and port.

    Array: a pass takes CHANNELS operands, out of a word of WORD, of ROWS rows for one pixel. A word has
    channels of one tap, whose taps on the padding need no pass, or gathered ones; the lanes of grouped layers
    take any. Weights of 0 need no pass, as far as no row of the block has more. ALU: it finishes LANES results
    a cycle, of whole words of ROWS. Port: it moves the input and, at a byte each, the weights that are not 0, in
    full bursts. Three bursts come one after the other with nothing else beside them: the first instructions,
    then the first bytes that any engine works with; and at the end the last results are acknowledged. The port's
    own work begins with the second of them, whose last BURST_GAP cycles are behind its bytes. What else the
    engines wait for one another is not counted.
    """
    macs, array, words, weights = (sum(column) for column in zip(*products(path, shape)))
    moved = int(np.prod(shape)) + weights
    port = moved * (BURST + BURST_GAP * PORT) / (BURST * PORT)
    return macs, max(array, words * ROWS // LANES, port - BURST_GAP) + 3 * LATENCY


def utilisation(report, path, shape):
    """Percent of the array's peak that the NPU's part has, and that the bound allows."""
    macs, least = bound(path, shape)
    cycles = sum(s["cycles"] for s in report["segments"])
    return 100 * macs / (cycles * ROWS * CHANNELS), 100 * macs / (least * ROWS * CHANNELS)


def check(rivulet, folder, entry, vision):
    package, end, _, symbol = entry
    _, shape, prepare = vision
    path = real.extract(real.fetch(package, folder), end, folder)
    calibration = list(examples(shape, prepare, CALIBRATION, 1))
    values = list(examples(shape, prepare, INPUTS, 2))
    want = run_all(path, values)
    with tempfile.TemporaryDirectory() as scratch:
        best = theirs(path, shape, calibration, values, want, scratch)
        mine, wrong = ours(rivulet, path, symbol, MIXED.get(end), calibration, values, want, scratch)
        report = explain(rivulet, path, symbol, calibration, scratch)
        # A model of sound has no fixed shape inside, and no row of utilisation.
        used = utilisation(report, os.path.join(scratch, EXPORTED), shape) if prepare else None
        return best, mine, wrong, share(report, path), used


def utilisation_misses(used):
    """Prints the utilisation of each model beside its bound, and returns how many bars are missed."""
    if not used:
        return 0
    for name, reached, limit in used:
        print(f"figure real.{name}.utilisation {reached:.2f} %")
        print(f"figure real.{name}.bound {limit:.2f} %")
    median = float(np.median([reached for _, reached, _ in used]))
    ratio = min(100 * reached / limit for _, reached, limit in used)
    print(f"figure real.utilisation.median {median:.2f} %")
    print(f"figure real.utilisation.ratio.min {ratio:.2f} %")
    for text, value, bar in (("median utilisation", median, MEDIAN_BAR),
                             ("utilisation over its bound, least", ratio, RATIO_BAR)):
        print(f"{'ok' if value >= bar else 'not ok'} - {text}: {value:.2f} %, at least {bar} %")
    beyond = [name for name, reached, limit in used if reached > limit]
    for name in beyond:
        print(f"not ok - {name}: its utilisation is beyond its bound")
    return (median < MEDIAN_BAR) + (ratio < RATIO_BAR) + len(beyond)


def main():
    rivulet, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    deficit, least, failed, used = -np.inf, np.inf, 0, []
    for vision in VISION:
        entry = next(m[:4] for m in real.MODELS if m[1] == vision[0])
        if len(sys.argv) > 3 and vision[0] not in sys.argv[3:]:
            continue
        best, mine, wrong, npu, use = check(rivulet, folder, entry, vision)
        ok = best - mine <= DEFICIT_BAR and npu >= SHARE_BAR
        failed += not ok
        deficit, least = max(deficit, best - mine), min(least, npu)
        if use:
            used.append((vision[0].removesuffix(".onnx"), *use))
        print(f"{'ok' if ok else 'not ok'} - {vision[0]}: {mine:.2f} dB, onnxruntime's {best:.2f} dB, "
              f"{npu:.2f} % on the NPU, {wrong:.3f} % of the values apart in onnxruntime", flush=True)
    print(f"figure real.snr.deficit.max {deficit:.2f} dB")
    print(f"figure real.npu.share.min {least:.2f} %")
    failed += utilisation_misses(used)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
