#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Parses the output of a verb with --json strictly, and compares its members with the man page.

usage: json_strict.py docs/man/rivulet-json.5 < OUTPUT

It refuses duplicate members, NaN and Infinity, text that is not UTF-8, anything after the one line,
a schema or a member that the page does not list, and a member whose name has a unit that the page
does not use.
"""
import json
import re
import sys

# Units that no member may have, because the page promises seconds, joules, volts, watts and bytes.
WRONG_UNIT = re.compile(r"(^|_)(ns|us|ms|pj|fj|uj|mj|uw|mw|mv|uv|ppm|mc|kib|mib|nanosecond|microvolt|millivolt)($|_)")
# Objects whose members are names from a table, which the page does not list one by one.
OPEN = {"rivulet.bench/1": ["counters"], "rivulet.info/2": ["counters"]}
# Objects that another schema describes.
NESTED = {("rivulet.info/2", "status"): "rivulet.status/2"}


def members(page):
    """The documented paths of each schema."""
    schemas, at, tag = {}, None, False
    for line in open(page, encoding="utf-8"):
        heading = re.match(r"\.SH (rivulet\.[a-z]+/[0-9]+)$", line)
        if line.startswith(".SH"):
            at = schemas.setdefault(heading.group(1), set()) if heading else None
        elif tag and at is not None:
            at.update(line.strip().removeprefix(".B ").split(", "))
        tag = line == ".TP\n"
    return schemas


def unique(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), f"duplicate members: {keys}"
    return dict(pairs)


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def paths(value, at=""):
    if isinstance(value, dict):
        for key, member in value.items():
            path = f"{at}.{key}" if at else key
            yield path
            yield from paths(member, path)
    elif isinstance(value, list):
        for item in value:
            yield from paths(item, at + "[]")


def main():
    text = sys.stdin.buffer.read().decode("utf-8", errors="strict")
    assert text.endswith("\n") and text.count("\n") == 1, f"not one line: {text[:200]!r}"
    value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    schemas = members(sys.argv[1])
    schema = value["schema"]
    assert list(value)[0] == "schema", "schema is not the first member"
    assert schema in schemas, f"{schema} is not in the page"
    for path in paths(value):
        if any(path.startswith(o + ".") for o in OPEN.get(schema, [])):
            continue
        known = schemas[schema]
        for (outer, member), inner in NESTED.items():
            if schema == outer and path.startswith(member + "."):
                known = schemas[inner]
        assert path in known, f"{schema}: {path} is not in the page"
        assert not WRONG_UNIT.search(path.rsplit(".", 1)[-1]), f"{schema}: the unit of {path}"


main()
