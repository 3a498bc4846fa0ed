# SPDX-License-Identifier: MIT
"""Lists of survivors: entries of four lines, found again by file, function and change, not by line number.

	compiler/npu/tile.c: fit_tile
	    while (rows [< => <=] most)
	    tests: 3
	    equivalent: the value at the limit gives the same tile, because ...
"""


class Verdicts:
    def __init__(self, path):
        self.known = {}
        for block in path.read_text().split("\n\n") if path.exists() else []:
            lines = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith("#")]
            if len(lines) < 2:
                continue
            where, _, function = lines[0].partition(": ")
            rest = [line for line in lines[2:] if not line.startswith("tests: ")]
            self.known[(where.split(":")[0], function, lines[1])] = " ".join(rest)

    def find(self, path, function, change):
        return (path, function or "data", change) in self.known

    def verdict(self, path, function, change):
        return self.known.get((path, function or "data", change), "")

    def equivalent(self, path, function, change):
        """Whether the mutant is called equivalent, with a reason."""
        return len(self.verdict(path, function, change).partition("equivalent: ")[2]) > 10

    def entry(self, result):
        """The entry of a survivor in a list."""
        verdict = self.verdict(result.path, result.function, result.change) or "unread"
        tests = f"{len(result.tests)}" + (f", such as {', '.join(result.tests[:3])}" if result.tests else " (uncovered)")
        return f"{result.path}:{result.line}: {result.function or 'data'}\n    {result.change}\n" \
               f"    tests: {tests}\n    {verdict}\n"
