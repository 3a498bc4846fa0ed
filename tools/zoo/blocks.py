# SPDX-License-Identifier: MIT
"""Random block-structured sparsity: of each run of 16 input channels, a row keeps the same number.

The array's blocks of tn input channels are 16 or 32 wide. Four weights of 16 are also eight of 32,
so that one model is valid on every board.
"""
import itertools
import random

WIDTH = 16


def kept_of(sparsity):
    """Weights of a run of 16 that stay at @sparsity per cent."""
    kept = round(WIDTH * (1 - sparsity / 100))
    return min(max(kept, 1), WIDTH)


def kept_channels(channels, kept):
    """Weights that a row keeps of @channels; a run of @kept channels or fewer keeps all of them."""
    full, rest = divmod(channels, WIDTH)
    return full * kept + min(kept, rest)


class Masks:
    def __init__(self, seed, kept):
        self.rng, self.kept, self.tables = random.Random(f"masks {seed}"), kept, {}

    def table(self, lanes):
        """Every choice of kept lanes out of @lanes, as WIDTH bytes of 0 or 255."""
        if lanes not in self.tables:
            chosen = itertools.combinations(range(lanes), min(self.kept, lanes))
            self.tables[lanes] = [bytes(255 * (i in c) for i in range(WIDTH)) for c in map(set, chosen)]
        return self.tables[lanes]

    def draw(self, rows, channels, taps):
        """Masks of weights [rows, channels, taps]."""
        blocks = -(-channels // WIDTH)
        lanes = [min(WIDTH, channels - i * WIDTH) for i in range(blocks)]
        drawn = [self.rng.choices(self.table(n), k=rows * taps) for n in lanes]
        out = bytearray(rows * channels * taps)
        for block, masks in enumerate(drawn):
            data = b"".join(masks)
            for lane in range(lanes[block]):
                for tap in range(taps):
                    at = (block * WIDTH + lane) * taps + tap
                    out[at::channels * taps] = data[tap * WIDTH + lane::taps * WIDTH]
        return out

    def apply(self, weights, rows, channels, taps):
        mask = self.draw(rows, channels, taps)
        both = int.from_bytes(weights, "little") & int.from_bytes(mask, "little")
        return both.to_bytes(len(weights), "little")
