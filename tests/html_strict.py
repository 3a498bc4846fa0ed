# SPDX-License-Identifier: MIT
"""html_strict.py PAGE CSV: checks a page of `rivulet explain --html` against the same account as CSV.

The page must be well-formed XML of elements that neither load nor run anything, and each cell of its
table must equal the field of the CSV.
"""
import csv
import re
import sys
import xml.etree.ElementTree as ET

XHTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"
ELEMENTS = {XHTML + n for n in "html head meta title style body h1 h2 p div span table thead tbody tr th td".split()}
ELEMENTS |= {SVG + n for n in "svg g path rect circle line polyline text title".split()}
ATTRIBUTES = set("class id lang charset http-equiv content x y x1 y1 x2 y2 d width height rx r cx cy fill "
                 "fill-opacity points transform text-anchor role aria-label".split())


def fail(text):
    sys.exit(f"html_strict: {text}")


def check_passive(root):
    for element in root.iter():
        if element.tag not in ELEMENTS:
            fail(f"element {element.tag}")
        for name, value in element.attrib.items():
            if name not in ATTRIBUTES or re.search(r"url|script:|data:", value, re.IGNORECASE):
                fail(f"{element.tag} has {name}={value!r}")
    policy = [m.get("content") for m in root.iter(XHTML + "meta") if m.get("http-equiv")]
    if policy != ["default-src 'none'; style-src 'unsafe-inline'"]:
        fail(f"policy {policy}")
    style = root.find(f".//{XHTML}style").text
    if re.search(r"url|import|expression|<", style):
        fail("the style sheet loads something")


def plain(field):
    """A field without the apostrophe that keeps a spreadsheet from computing it."""
    return field[1:] if re.match(r"'[=+\-@]", field) else field


def main():
    page, table = sys.argv[1:]
    root = ET.parse(page).getroot()
    check_passive(root)
    with open(table, encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f, strict=True))
    cells = [[c.text or "" for c in tr.iter(XHTML + "td")] for tr in root.iter(XHTML + "tr")]
    want = [[plain(field) for field in row] for row in rows[1:]]
    if cells[1:] != want:
        fail(f"the table differs from the CSV:\n{cells[1:]}\n{want}")
    boxes = root.find(f".//{SVG}svg[@class='graph']").findall(f".//{SVG}rect")
    if len(boxes) != len(want):
        fail(f"{len(boxes)} boxes for {len(want)} rows")
    products = sum(1 for row in want if int(row[rows[0].index("macs")]) and float(row[rows[0].index("gops")]))
    dots = [c for c in root.iter(SVG + "circle") if c.get("class") != "physical"]
    if len(dots) != products:
        fail(f"{len(dots)} dots for {products} layers with products")
    titles = [t.text for t in root.iter(SVG + "title")]
    for row in want:
        text = "".join(f"{h}: {v}\n" for h, v in zip([th.text for th in root.iter(XHTML + "th")], row) if v)
        if text not in titles:
            fail(f"no box has the tooltip {text!r}")


main()
