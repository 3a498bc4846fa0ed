# SPDX-License-Identifier: MIT
"""Compares `rivulet bench --device cpu` with libraries from PyPI, in figures cpu.*.

A burst is a process of its own that runs one model on one library and prints the median time.
Bursts of all sides alternate. With one thread a time is processor time, which other load changes
little; with several it is the latency. Float models take so long to load that they have few bursts:
their time is the least processor time of a run, or the least median latency of a burst. The peer of a
ratio is the fastest of all libraries, modes and, for the networks, activation types. A case that
takes longer than a limit has fewer rounds. Standard error says which case is measured.
"""
import argparse
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = os.path.join(HERE, "..", "zoo", "zoo.py")
PACKAGES = {"onnxruntime": ["onnxruntime", "onnx", "numpy"],
            "xnnpack": ["ai-edge-litert==2.3.0", "onnx", "numpy"]}
MODES = {"onnxruntime": ["onnxruntime", "onnxruntime/int8", "onnxruntime/precise"],
         "xnnpack": ["xnnpack"]}
NETWORKS = ("mobilenetv1", "mobilenetv2", "resnet18", "resnet50", "squeezenet", "ssd-mobilenetv1")
DETECTORS = ("ssd-mobilenetv1",)    # end in floats
TYPES = ("uint8", "int8")
FEW, FEW_FLOAT = 3, 5    # runs of the first burst; that of a float model counts
SLOW = 1.5    # a peer so many times slower than the fastest at first is measured no more
PART = ".part"    # ends the name of a file of the cache until it is whole
BURST_MAX = 300    # seconds after which a burst fails


class Failed(Exception):
    pass


def suffix_of(threads):
    return f".threads{threads}" if threads > 1 else ""


def python_of(cache, peers):
    """The virtual environment, made where it is missing; one for each set of packages."""
    folder = os.path.join(cache, "venv-" + "-".join(peers))
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, "installed")
    if not os.path.exists(done):
        print("installing " + ", ".join(peers) + f" below {folder}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        packages = sorted({p for name in peers for p in PACKAGES[name]})
        subprocess.run([python, "-m", "pip", "-q", "install", *packages], check=True)
        with open(done, "w", encoding="ascii") as f:
            f.write("\n".join(packages) + "\n")
    return python


def avx2_only(cache):
    """The library that hides what a processor has beyond AVX2 from the program that loads it."""
    path = os.path.join(os.path.abspath(cache), "avx2_only.so")
    if set(path) & set(" :"):
        raise Failed(f"{path}: the dynamic linker divides LD_PRELOAD at spaces and colons; choose another --cache")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", path, os.path.join(HERE, "avx2_only.c")], check=True)
    return path


class Case:
    """A figure: our model, and the files on which each peer runs. @make makes the files and returns both."""

    def __init__(self, name, make):
        self.name, self.make = name, make
        self.ours, self.peers = None, []

    def prepare(self):
        if not self.ours:
            self.ours, self.peers = self.make()


class Comparison:
    def __init__(self, opt):
        self.opt = opt
        self.python = opt.python or python_of(opt.cache, opt.peers)
        self.ratios = {}    # threads: of all figures
        self.environment = dict(os.environ)    # of bursts
        if opt.avx2:
            self.environment["LD_PRELOAD"] = avx2_only(opt.cache)

    def hidden(self):
        """Begins the names of figures where --avx2 hides a part of the processor."""
        return "avx2-" if self.opt.avx2 else ""

    # ---- models ----

    def prefix(self):
        """Of the files of networks, which is in the names of their figures."""
        return "" if self.opt.weights == "uniform" else self.opt.weights + "-"

    def network(self, name, kind):
        path = os.path.join(self.opt.cache, f"{self.prefix()}{name}.{kind}.onnx")
        if not os.path.exists(path):
            end = ["--quantised"] if name not in DETECTORS else []
            subprocess.run([sys.executable, "-B", ZOO, name, "--type", kind, "--weights",
                            self.opt.weights, "-o", path + PART, *end],
                           check=True, stdout=subprocess.DEVNULL)
            os.replace(path + PART, path)
        return path

    def tflite(self, path):
        """The converted model, or None where it cannot be converted."""
        out = path[:-5] + ".tflite"
        if not os.path.exists(out):
            script = os.path.join(HERE, "tflite.py")
            if subprocess.run([self.python, "-B", script, path, out + PART], check=False).returncode:
                return None
            os.replace(out + PART, out)
        return out

    def peers_of(self, paths, lite=True):
        modes = ["onnxruntime"] if self.opt.float else MODES["onnxruntime"]
        sides = [(m, p) for m in modes for p in paths if "onnxruntime" in self.opt.peers]
        converted = self.tflite(paths[-1]) if lite and "xnnpack" in self.opt.peers else None
        return sides + ([("xnnpack", converted)] if converted else [])

    def make_network(self, name, kind):
        paths = {t: self.network(name, t) for t in TYPES}
        return paths[kind], self.peers_of(list(paths.values()))

    def make_layer(self, name, build, lite):
        path = os.path.join(self.opt.cache, f"{name}.onnx")
        build(path)
        return path, self.peers_of([path], lite=lite)

    def network_cases(self):
        for name in self.opt.networks:
            for kind in TYPES:
                yield Case(f"{self.prefix()}{name.replace('-', '')}.{kind}",
                           functools.partial(self.make_network, name, kind))

    def layer_cases(self):
        import layers

        for group, prefix in ((layers.OPERATORS, "op."), (layers.DEPTHWISE, "")):
            for name, build in group.items():
                yield Case(prefix + name, functools.partial(self.make_layer, name, build, not prefix))

    def model_case(self, path):
        name = os.path.splitext(os.path.basename(path))[0]
        return Case("float." + name if self.opt.float else name, lambda: (path, self.peers_of([path])))

    def cases(self):
        if self.opt.models:
            yield from map(self.model_case, self.opt.models)
            return
        if self.opt.only in (None, "networks"):
            yield from self.network_cases()
        if self.opt.only in (None, "layers"):
            yield from self.layer_cases()

    # ---- bursts ----

    def ours(self, path, threads, runs):
        text = self.call([self.opt.tool, "bench", path, "--device", "cpu", "--threads", str(threads),
                          "--runs", str(runs), "--warmup", "3", "--depth", "0", "--json"])
        report = json.loads(text)
        self.device = report["device"]
        if self.opt.avx2 and "(avx2)" not in self.device:
            raise Failed(f"--avx2: rivulet runs on {self.device}")
        if threads > 1:
            return report["latency_median_s"]
        return report["processor_min_s" if self.opt.float else "processor_median_s"]

    def theirs(self, side, path, threads, runs):
        text = self.call([self.python, "-B", os.path.join(HERE, "burst.py"), side, path, str(threads),
                          str(runs)])
        report = json.loads(text)
        if threads > 1:
            return report["wall"]
        return report["least" if self.opt.float else "processor"]

    def call(self, command):
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=BURST_MAX,
                                  env=self.environment)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"{' '.join(command)}: not done after {BURST_MAX} s") from e
        if done.returncode:
            raise Failed(f"{' '.join(command)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        return done.stdout

    def burst(self, side, threads, runs):
        name, path = side
        return self.ours(path, threads, runs) if name == "rivulet" else \
            self.theirs(name, path, threads, runs)

    def runs_of(self, seconds):
        """As many as take the time of a burst."""
        return max(5, min(400, int(self.opt.burst / max(seconds, 1e-6))))

    def measure(self, case, threads):
        us, end = ("rivulet", case.ours), time.monotonic() + self.opt.limit
        few = FEW_FLOAT if self.opt.float else FEW
        first = {us: self.burst(us, threads, few)}
        for side in case.peers:
            try:
                first[side] = self.burst(side, threads, few)
            except Failed as e:
                print(f"compare: {case.name}: {e}", file=sys.stderr)
        least = min((t for s, t in first.items() if s != us), default=None)
        if least is None:
            return
        sides = [s for s, t in first.items() if s == us or t <= SLOW * least]
        times = {s: [first[s]] if self.opt.float else [] for s in sides}
        rounds = self.opt.rounds or (1 if self.opt.float else 5)
        for i in range(rounds):
            if i and time.monotonic() >= end:
                print(f"compare: {case.name}: {i} of {rounds} rounds in {self.opt.limit:g} s", file=sys.stderr)
                break
            for s in sides:
                times[s].append(self.burst(s, threads, self.runs_of(first[s])))
        ratio = self.report(self.hidden() + case.name + suffix_of(threads), us, times)
        self.ratios.setdefault(threads, []).append(ratio)

    def report(self, name, us, times):
        """Prints the figures and returns the ratio."""
        of_bursts = min if self.opt.float else statistics.median
        mine = of_bursts(times[us])
        peer = min((s for s in times if s != us), key=lambda s: of_bursts(times[s]))
        theirs = of_bursts(times[peer])
        detail = " " + os.path.basename(peer[1]).split(".")[-2] if peer[1] != us[1] else ""
        print(f"{name}: {mine * 1e3:.3f} ms, {peer[0]}{detail} {theirs * 1e3:.3f} ms")
        print(f"figure cpu.{name}.time {mine * 1e3:.3f} ms")
        print(f"figure cpu.{name}.peer {theirs * 1e3:.3f} ms")
        print(f"figure cpu.{name}.ratio {mine / theirs:.2f} x")
        print(f"figure cpu.{name}.ratio.min {min(times[us]) / min(times[peer]):.2f} x", flush=True)
        return mine / theirs

    def summary(self):
        for threads, ratios in self.ratios.items():
            name = f"cpu.{self.hidden()}float.ratio{suffix_of(threads)}"
            print(f"figure {name}.mean {statistics.geometric_mean(ratios):.2f} x")
            print(f"figure {name}.max {max(ratios):.2f} x")

    def run(self):
        cases = [c for c in self.cases() if self.opt.match in c.name]
        self.device, start, n = None, time.monotonic(), 0
        for threads in self.opt.threads:
            for case in cases:
                n += 1
                print(f"compare: {n} of {len(cases) * len(self.opt.threads)}, after "
                      f"{time.monotonic() - start:.0f} s: {case.name}, {threads} "
                      f"thread{'s' if threads > 1 else ''}", file=sys.stderr)
                case.prepare()
                if not self.opt.prepare:
                    self.measure(case, threads)
        if self.opt.prepare:
            return
        if self.opt.float:
            self.summary()
        print(f"instruction set: {self.device}; each peer chooses its own")


def words(allowed):
    def parse(text):
        got = text.split(",")
        bad = [w for w in got if allowed and w not in allowed]
        if bad:
            raise argparse.ArgumentTypeError(f"{bad[0]} is not one of {', '.join(allowed)}")
        return got
    return parse


def main():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("models", nargs="*", help="without: the networks and layers of the table")
    ap.add_argument("--tool", required=True, help="the rivulet command")
    ap.add_argument("--peers", type=words(list(MODES)), default=list(MODES))
    ap.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=[1, 2])
    ap.add_argument("--rounds", type=int, help="bursts of each side (5; of float models 1 more than the first)")
    ap.add_argument("--burst", type=float, default=0.3, help="seconds of a burst")
    ap.add_argument("--limit", type=float, default=15,
                    help="seconds after which a case begins no round but the first (%(default)g)")
    ap.add_argument("--only", choices=["networks", "layers"])
    ap.add_argument("--networks", type=words(NETWORKS), default=NETWORKS)
    ap.add_argument("--weights", choices=["uniform", "laplace", "halved"], default="uniform",
                    help="of the networks, a prefix of the names; laplace is like trained ones quantised by "
                         "channel, halved like those with one scale")
    ap.add_argument("--match", default="", help="only figures whose names contain this")
    ap.add_argument("--float", action="store_true",
                    help="the models are float: no modes of int8; figures cpu.float.*")
    ap.add_argument("--avx2", action="store_true",
                    help="hide what this processor has beyond AVX2 from both sides; it must be able to trap CPUID")
    ap.add_argument("--python", help="an interpreter that has the peers, instead of installing them")
    ap.add_argument("--prepare", action="store_true", help="install and make models, measure nothing")
    ap.add_argument("--cache", default=os.path.join(home, "rivulet", "peers"))
    opt = ap.parse_args()
    os.makedirs(opt.cache, exist_ok=True)
    try:
        Comparison(opt).run()
    except (Failed, subprocess.CalledProcessError, OSError) as e:
        sys.exit(f"compare: {e}")


if __name__ == "__main__":
    main()
