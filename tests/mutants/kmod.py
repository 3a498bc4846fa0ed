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
import time

import sites
from build import OUT, ROOT, digest
from verdicts import Verdicts

TREE = OUT / "kmod"
LOG = OUT / "kmod.log"
BOOT_SECONDS = 1800           # of a suite; the VM ends itself after 900 s
ATTEMPTS = 3                  # of a suite that ends without a verdict
COMPLAINT = re.compile(r"^.*(?:Kernel panic|BUG: |WARNING: |Oops: |KFENCE: |general protection fault|"
                       r"INFO: task .* blocked).*$", re.M)


def state():
    """One name for the driver and all that tests it."""
    files = subprocess.run(["git", "ls-files", "kmod", "uapi", "daemon", "libclient", "sim", "tests/vm", "tests/kmod",
                            "scripts"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return digest(b"".join((ROOT / f).read_bytes() for f in sorted(files) if (ROOT / f).is_file()))[:16]


def copy_tree():
    """A copy of the tracked files and of the VM's root, which the mutants are built in."""
    TREE.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    names = [n for n in listed.decode().split("\0") if n and (ROOT / n).is_file()]
    # A file that was deleted from the tree would still be compiled, because the parts collect their
    # files by wildcard.
    known = set(names)
    for target in TREE.rglob("*"):
        name = target.relative_to(TREE)
        if name.parts[0] != "build" and not target.is_dir() and str(name) not in known:
            target.unlink()
    for name in names:
        source, target = ROOT / name, TREE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copy2(source, target)
    if not (TREE / "build/vm").exists():
        (TREE / "build").mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", "--sparse=always", str(ROOT / "build/vm"), str(TREE / "build/")], check=True)


def end_group(child):
    """Ends a command with all its processes. SIGTERM is first, because vm-run.sh has a directory in
    memory to remove.
    """
    for number, seconds in (signal.SIGTERM, 20), (signal.SIGKILL, 5):
        end = time.monotonic() + seconds
        try:
            os.killpg(child.pid, number)
            while time.monotonic() < end:
                child.poll()
                os.killpg(child.pid, 0)
                time.sleep(0.1)
        except ProcessLookupError:
            break
    child.wait()


def run(args, seconds, enough=lambda: False):
    """A command in the copy; its exit status, or None after a time-out or as soon as @enough() is true."""
    with open(LOG, "wb") as log:
        child = subprocess.Popen(args, cwd=TREE, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                 start_new_session=True)
    end = time.monotonic() + seconds
    try:
        while child.poll() is None and time.monotonic() < end and not enough():
            time.sleep(0.5)
        return child.returncode
    finally:
        end_group(child)


def compiled(path):
    """The code of a source's object, or None where the driver does not build without warnings."""
    if run(["make", "modules"], 600) != 0:
        return None
    obj, bare = TREE / "build" / (path[:-2] + ".o"), OUT / "kmod.o"
    subprocess.run(["objcopy", "--strip-debug", str(obj), str(bare)], check=True)
    return digest(bare.read_bytes())


def failure(log):
    """Returns the first failed test of a suite, or the first report of the kernel, or ""."""
    failed = re.search(r"^not ok[^\n]*\n", log, re.M) or COMPLAINT.search(log)
    return failed.group().strip() if failed else ""


def passed(log):
    """Whether a suite came to its end: the last line counts tests, and none of them failed."""
    lines = log.split("\n")
    return len(lines) > 1 and bool(re.fullmatch(r"[1-9]\d* passed, 0 failed", lines[-2]))


def suite():
    """The state of a suite, and why: "killed", "survived", or "error" where it ended without a verdict."""
    for _ in range(ATTEMPTS):
        status = run(["scripts/vm-check.sh"], BOOT_SECONDS, lambda: failure(LOG.read_text(errors="replace")))
        log = LOG.read_text(errors="replace")
        if failure(log):
            return "killed", failure(log)
        if status == 0 and passed(log):
            return "survived", ""
        why = f"no verdict, exit status {status}"
        print(f"mutants: {why}; tried again", flush=True)
    return "error", why


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
            result["state"], result["detail"] = suite()
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


def report(results, errors):
    verdicts = Verdicts(ROOT / "tests/mutants/verdicts.txt")
    killed = sum(r["state"] == "killed" for r in results)
    alive = [r for r in results if r["state"] == "survived"]
    equivalent = sum(verdicts.equivalent(r["path"], r["function"], r["change"]) for r in alive)
    for r in alive:
        print(f"{r['path']}:{r['line']}: {r['function'] or 'data'}\n    {r['change']}\n    "
              f"{verdicts.verdict(r['path'], r['function'], r['change']) or 'unread'}")
    for r in errors:
        print(f"not counted, {r['detail']}: {r['path']}:{r['line']}  {r['change']}")
    print(f"figure mutants.kmod.tried {len(results)} mutants")
    print(f"figure mutants.kmod.killed {killed} mutants")
    print(f"figure mutants.kmod.equivalent {equivalent} mutants")
    print(f"figure mutants.kmod.score {100.0 * killed / max(1, len(results) - equivalent):.1f} %")


def check_suite():
    """Without a mutant the suite must pass; otherwise its failures prove nothing."""
    state, why = suite()
    if state != "survived":
        raise SystemExit(f"mutants: the suite fails without a mutant: {why}; see {LOG}")


class Store:
    """Returns the results for this state of the driver and its tests. A mutant with an error is
    tried again.
    """

    def __init__(self):
        self.path = OUT / f"kmod-{state()}.jsonl"
        self.known = dict(json.loads(line) for line in self.path.read_text().splitlines()) if self.path.exists() else {}

    def result(self, site, choice):
        key = f"{site.path} {site.ordinal} {choice}"
        if key not in self.known:
            result = try_one(site, choice)
            if result["state"] == "error":
                return result
            self.known[key] = result
            with open(self.path, "a") as f:
                f.write(json.dumps([key, result]) + "\n")
        return self.known[key]


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    args = options()
    signal.signal(signal.SIGTERM, interrupt)
    copy_tree()
    store, results, errors = Store(), [], []
    try:
        if not store.known:
            check_suite()
        for site, choice in candidates(args.seed):
            if len(results) + len(errors) >= args.number:
                break
            r = store.result(site, choice)
            if r["state"] == "error":
                errors.append(r)
            elif r["state"] in ("killed", "survived"):
                results.append(r)
                print(f"{len(results):3d} {r['state']:9s} {r['path']}:{r['line']}  {r['change']}  {r['detail']}",
                      flush=True)
    except KeyboardInterrupt:
        print("mutants: interrupted; the results so far are kept", flush=True)
    report(results, errors)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
