# SPDX-License-Identifier: MIT
"""mca_binary.py ASSEMBLER CPU...: cycles of BiRealNet-18's binary layers with VPOPCNTDQ by llvm-mca 19.

ASSEMBLER is kernels/binary/avx512.c compiled by -S. Each loop is taken as an endless one whose data are
in the first-level cache: a word of six pixels by 32 channels, and the tail of a row of a tile (int16
results with an int16 shortcut, and bits). A layer's cycles are those of its tiles. What is not in
them: entering a block and a tile, copying the padded image, and the caches. It is no measurement.
"""
import re
import subprocess
import sys

# Channels, outputs, side of the result, times in the network.
LAYERS = [(64, 64, 56, 4), (64, 128, 28, 1), (128, 128, 28, 3), (128, 256, 14, 1), (256, 256, 14, 3),
          (256, 512, 7, 1), (512, 512, 7, 3)]
PIXELS, CHANNELS, ITERATIONS = 6, 32, 200


def loops(lines):
    """The bodies that end with a jump back, of all functions."""
    at = {}
    for i, line in enumerate(lines):
        label = re.match(r"(\.L\d+):", line)
        jump = re.match(r"\s+j\w+\s+(\.L\d+)", line)
        if label:
            at[label[1]] = i
        if jump and jump[1] in at:
            yield lines[at[jump[1]]:i]


def innermost(lines, instruction, times):
    """The shortest loop that has @instruction @times times, without labels and jumps."""
    fits = [b for b in loops(lines) if sum(instruction in x for x in b) == times]
    if not fits:
        sys.exit(f"no loop has {instruction} {times} times")
    return [x for x in min(fits, key=len) if re.match(r"\s+[a-z]", x) and not re.match(r"\s+j", x)]


def cycles(body, cpu):
    out = subprocess.run(["llvm-mca-19", f"-mcpu={cpu}", f"-iterations={ITERATIONS}"], input="\n".join(body),
                         capture_output=True, text=True, check=True).stdout
    return int(re.search(r"Total Cycles:\s+(\d+)", out)[1]) / ITERATIONS


def report(cpu, word, row):
    all_loop = all_total = 0
    print(f"{cpu}: {word:.1f} cycles for a word of {PIXELS} x {CHANNELS}, {row:.1f} for the tail of a row")
    for c, m, side, times in LAYERS:
        tiles = -(-side * side // PIXELS) * (m // CHANNELS)
        loop = tiles * 9 * c // 64 * word
        total = loop + tiles * PIXELS * row
        print(f"  {c:4} -> {m:4}  {side:2}x{side:<2}  {total:9.0f} cycles, {100 * loop / total:5.1f} % of them in the loop")
        all_loop += times * loop
        all_total += times * total
    print(f"figure binary.mca.{cpu}.word {word:.1f} cycles\nfigure binary.mca.{cpu}.row {row:.1f} cycles")
    print(f"figure binary.mca.{cpu}.share {100 * all_loop / all_total:.1f} %")


with open(sys.argv[1], encoding="utf-8") as f:
    text = f.read().split("\n")
count = innermost(text, "vpopcntq", 24)
tail = innermost(text, "vpmovsxwd", 2)
for name in sys.argv[2:]:
    report(name, cycles(count, name), cycles(tail, name))
