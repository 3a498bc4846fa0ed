#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutants of the driver against the VM suite: the machine of each is its sandbox. See README."""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

import sites
from build import OUT, ROOT, digest
from verdicts import Verdicts

TREE = OUT / "kmod"
BOOT_SECONDS = 1800           # of a suite; the VM ends itself after 900 s


def state():
    """One name for the driver and all that tests it."""
    files = subprocess.run(["git", "ls-files", "kmod", "uapi", "daemon", "libclient", "sim", "tests/vm", "tests/kmod",
                            "scripts"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return digest(b"".join((ROOT / f).read_bytes() for f in sorted(files) if (ROOT / f).is_file()))[:16]


def copy_tree():
    """A copy of the tracked files and of the VM's root, which the mutants are built in."""
    TREE.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        source, target = ROOT / name, TREE / name
        if not name or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy2(source, target)
    if not (TREE / "build/vm").exists():
        (TREE / "build").mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", "--sparse=always", str(ROOT / "build/vm"), str(TREE / "build/")], check=True)


def run(args, seconds):
    """A command in the copy, in a process group that ends with it; its exit status, or None after a time-out."""
    with open(OUT / "kmod.log", "wb") as log:
        child = subprocess.Popen(args, cwd=TREE, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                 start_new_session=True)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def compiled(path):
    """The code of a source's object, or None where the driver does not build without warnings."""
    if run(["make", "modules"], 600) != 0:
        return None
    obj, bare = TREE / "build" / (path[:-2] + ".o"), OUT / "kmod.o"
    subprocess.run(["objcopy", "--strip-debug", str(obj), str(bare)], check=True)
    return digest(bare.read_bytes())


def failures():
    return re.findall(r"not ok[^\n]*", (OUT / "kmod.log").read_text(errors="replace"))[:1]


def suite():
    """Why the VM suite fails, or "" when it passes."""
    status = run(["scripts/vm-check.sh"], BOOT_SECONDS)
    if status == 0:
        return ""
    return (failures() or ["no end in sight" if status is None else "the machine died"])[0]


def try_one(site, choice):
    target = TREE / site.path
    text = (ROOT / site.path).read_text()
    result = {"path": site.path, "line": site.line, "function": site.function, "change": site.describe(text, choice),
              "state": "", "detail": ""}
    original = compiled(site.path)
    try:
        target.write_text(site.mutate(text, choice))
        changed = compiled(site.path)
        if changed is None or changed == original:
            result["state"] = "invalid" if changed is None else "same"
        else:
            result["detail"] = suite()
            result["state"] = "killed" if result["detail"] else "survived"
    finally:
        target.write_text(text)
    return result


def candidates(seed):
    found = [s for p in sorted((ROOT / "kmod").glob("*.c"))
             for s in sites.sites(str(p.relative_to(ROOT)), p.read_text())]
    random.Random(seed).shuffle(found)
    return [(s, sites.pick(s, seed)) for s in found]


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--number", type=int, default=24)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def report(results):
    verdicts = Verdicts(ROOT / "tests/mutants/verdicts.txt")
    killed = sum(r["state"] == "killed" for r in results)
    alive = [r for r in results if r["state"] == "survived"]
    equivalent = sum(verdicts.equivalent(r["path"], r["function"], r["change"]) for r in alive)
    for r in alive:
        print(f"{r['path']}:{r['line']}: {r['function'] or 'data'}\n    {r['change']}\n    "
              f"{verdicts.verdict(r['path'], r['function'], r['change']) or 'unread'}")
    print(f"figure mutants.kmod.tried {len(results)} mutants")
    print(f"figure mutants.kmod.killed {killed} mutants")
    print(f"figure mutants.kmod.equivalent {equivalent} mutants")
    print(f"figure mutants.kmod.score {100.0 * killed / max(1, len(results) - equivalent):.1f} %")


def main():
    args = options()
    copy_tree()
    store = OUT / f"kmod-{state()}.jsonl"
    known = dict(json.loads(line) for line in store.read_text().splitlines()) if store.exists() else {}
    results = []
    try:
        if not known:
            why = suite()
            if why:
                raise SystemExit(f"mutants: the suite fails without a mutant: {why}; see {OUT / 'kmod.log'}")
        for site, choice in candidates(args.seed):
            if len(results) >= args.number:
                break
            key = f"{site.path} {site.ordinal} {choice}"
            if key not in known:
                known[key] = try_one(site, choice)
                with open(store, "a") as f:
                    f.write(json.dumps([key, known[key]]) + "\n")
            r = known[key]
            if r["state"] in ("killed", "survived"):
                results.append(r)
                print(f"{len(results):3d} {r['state']:9s} {r['path']}:{r['line']}  {r['change']}  {r['detail']}",
                      flush=True)
    except KeyboardInterrupt:
        print("mutants: interrupted; the results so far are kept", flush=True)
    report(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
