# SPDX-License-Identifier: MIT
"""One burst of a library: burst.py LIBRARY MODEL THREADS RUNS prints medians as JSON.

onnxruntime has modes, named after a "/": "onnxruntime/int8" lets it fuse quantisers of int8
activations, "onnxruntime/precise" keeps uint8 weights from saturating 16-bit sums. No thread spins.
"""
import json
import statistics
import sys
import time

WARMUP = 3
ENTRIES = {"": {}, "int8": {"session.qdqisint8allowed": "1"},
           "precise": {"session.x64quantprecision": "1"}}


def session_of(path, threads, mode):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    for key, value in ENTRIES[mode].items():
        options.add_session_config_entry(key, value)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def random_input(rng, name, shape):
    """By the name of an element type: all bytes, or floats of 0 to 1."""
    import numpy as np

    dims = [d if isinstance(d, int) and d > 0 else 1 for d in shape]
    if "int8" in name:
        kind = np.uint8 if "uint8" in name else np.int8
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, dims, dtype=kind)
    if "float" in name:
        return rng.random(dims, dtype=np.float32)
    return np.zeros(dims, np.int64 if "int64" in name else np.int32)


def onnxruntime(path, threads, mode):
    import numpy as np

    session, rng = session_of(path, threads, mode), np.random.default_rng(1)
    inputs = {i.name: random_input(rng, i.type, i.shape) for i in session.get_inputs()}
    return lambda: session.run(None, inputs)


def xnnpack(path, threads, _):
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    lite, rng = Interpreter(path, num_threads=threads), np.random.default_rng(1)
    lite.allocate_tensors()
    for d in lite.get_input_details():
        lite.set_tensor(d["index"], random_input(rng, np.dtype(d["dtype"]).name, d["shape"].tolist()))
    return lite.invoke


def main():
    library, path, threads, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    library, _, mode = library.partition("/")
    run = {"onnxruntime": onnxruntime, "xnnpack": xnnpack}[library](path, threads, mode)
    wall, processor = [], []
    for _ in range(runs + WARMUP):
        w, p = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - w)
        processor.append(time.process_time() - p)
    print(json.dumps({"wall": statistics.median(wall[WARMUP:]),
                      "processor": statistics.median(processor[WARMUP:]),
                      "least": min(processor[WARMUP:])}))


if __name__ == "__main__":
    main()
