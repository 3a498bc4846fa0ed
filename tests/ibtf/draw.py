# SPDX-License-Identifier: MIT
"""usage: draw.py FOLDER: draws the tables that eval_ibtf wrote, and lists the layers that fall short."""
import csv
import os
import sys

COLOURS = ["#4477aa", "#ee6677", "#228833", "#ccbb44"]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 380, 60, 60, 50
CLAIMS = {"vgg11": 5.22}    # of the publication; the others: on average
CLAIM = 3.32


def read(folder, name):
    with open(os.path.join(folder, name), newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


class Chart:
    """An SVG with a vertical axis from 0 and a legend."""

    def __init__(self, title, unit, most, series):
        self.step = next(s for s in (0.5, 1, 2, 5, 500, 1000, 2000, 5000) if most / s <= 12)
        self.most = self.step * (int(most / self.step) + 1)
        self.parts = []
        self.text(WIDTH / 2, 20, title, "middle", 15)
        self.text(LEFT, 42, unit)
        for i, name in enumerate(series):
            x = WIDTH - 20 - 170 * (len(series) - i)
            self.box(x, 34, 10, 10, COLOURS[i])
            self.text(x + 15, 43, name)
        for i in range(int(self.most / self.step) + 1):
            y = self.y(i * self.step)
            self.line([(LEFT, y), (WIDTH - 20, y)], "#dddddd", 1)
            self.text(LEFT - 6, y + 4, f"{i * self.step:g}", "end")

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.most

    def text(self, x, y, text, anchor="start", size=11):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{text}</text>')

    def box(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>')

    def line(self, points, colour, width=2):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def save(self, folder, name):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                    f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
                    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def bars(folder, name, title, unit, labels, series):
    """@series: name to one value for each label"""
    c = Chart(title, unit, max(max(v) for v in series.values()), series)
    room = (WIDTH - 20 - LEFT) / len(labels)
    width = room * 0.8 / len(series)
    for i, label in enumerate(labels):
        x = LEFT + i * room + room * 0.1
        for k, values in enumerate(series.values()):
            c.box(x + k * width, c.y(values[i]), width * 0.92, c.y(0) - c.y(values[i]), COLOURS[k])
            c.text(x + (k + 0.46) * width, c.y(values[i]) - 3, f"{values[i]:.1f}", "middle", 9)
        c.text(x + room * 0.4, HEIGHT - BOTTOM + 18, label, "middle")
    c.save(folder, name)


def lines(folder, name, title, unit, labels, series):
    c = Chart(title, unit, max(max(v) for v in series.values()), series)
    step = (WIDTH - 60 - LEFT) / (len(labels) - 1)
    for k, values in enumerate(series.values()):
        c.line([(LEFT + 20 + i * step, c.y(v)) for i, v in enumerate(values)], COLOURS[k])
    for i, label in enumerate(labels):
        c.text(LEFT + 20 + i * step, HEIGHT - BOTTOM + 18, label, "middle")
    c.save(folder, name)


def column(rows, key):
    return [float(r[key]) for r in rows]


def ratio(rows, over, under):
    return [float(r[over]) / float(r[under]) for r in rows]


def draw_tables(folder):
    rows = read(folder, "widths.csv")
    lines(folder, "widths.svg", "256 inputs, 6 kernels, 4 bits: additions by the width of the slices", "additions",
          [r["a"] for r in rows], {"formula (3)": column(rows, "formula"), "count": column(rows, "count")})
    for n in ("1024", "32"):
        rows = [r for r in read(folder, "table2.csv") if r["inputs"] == n]
        bars(folder, f"table2-{n}.svg", f"{n} inputs, 4 kernels, dense", "times fewer additions",
             [f"{r['bits']} bits" for r in rows],
             {"formula (3)": column(rows, "formula_rate"), "count": column(rows, "rate")})
    rows = read(folder, "table3.csv")
    lines(folder, "table3.svg", "1024 inputs, 4 kernels, 4 bits: by zero weights", "times fewer additions",
          [r["zeros_percent"] + " %" for r in rows],
          {"formula (3)": column(rows, "formula_rate"), "even slices": ratio(rows, "eq_mac", "even"),
           "count": column(rows, "rate")})


def draw_networks(folder):
    rows = read(folder, "networks.csv")
    bars(folder, "networks.svg", "Additions of networks, IBTF = 1", "times IBTF by the count",
         [r["network"] for r in rows],
         {"sparse, 16 bits": ratio(rows, "sparse", "adds"), "and quantised": ratio(rows, "eq_mac", "adds"),
          "IBTF, formula (3)": ratio(rows, "formula", "adds")})


def list_short(folder):
    """Why: the additions of the formula's own slices beyond the formula, in percent of it."""
    rows = [r for r in read(folder, "layers.csv") if float(r["rate"]) < CLAIMS.get(r["network"], CLAIM)]
    print(f"{len(rows)} layers below the publication's ratio of their network (1 - zeros: inputs of a kernel that count):")
    for r in rows:
        live = int(r["inputs"]) * (100 - int(r["zeros_percent"])) / 100
        spans, fold, columns = (100 * float(r[k]) / float(r["formula"]) for k in ("spans", "fold", "columns"))
        print(f"  {r['network']:9} {r['layer']:8} {float(r['rate']):5.2f} of {CLAIMS.get(r['network'], CLAIM)}, "
              f"formula {float(r['formula_rate']):5.2f}; {live:5.0f} inputs; slices of {r['formula_a']} columns: "
              f"several kernels {spans:+.0f} %, fold {fold:+.0f} %, columns {columns:+.0f} %; {r['form']} taken")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    draw_tables(sys.argv[1])
    draw_networks(sys.argv[1])
    list_short(sys.argv[1])


if __name__ == "__main__":
    main()
