# SPDX-License-Identifier: MIT
"""Mutable sites of a C source: operators, constants and branch conditions, with what they may become."""
import random
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)[uUlLfF]*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!~<>=?:;,.(){}\[\]\#])
  | (?P<other>.)
""", re.X | re.S)

SWAPS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"],
    "&": ["|"], "|": ["&"], "^": ["&"], "<<": [">>"], ">>": ["<<"], "++": ["--"], "--": ["++"],
    "+=": ["-="], "-=": ["+="], "*=": ["/="], "/=": ["*="], "%=": ["*="], "&=": ["|="], "|=": ["&="],
    "^=": ["&="], "<<=": [">>="], ">>=": ["<<="], "!": [""], "~": [""],
}
# Operators that have another meaning unless an operand precedes them: signs, pointers, addresses.
BINARY_ONLY = {"+", "-", "*", "&"}
NOT_OPERANDS = {"return", "case", "sizeof", "else", "do", "goto", "typeof", "in"}


@dataclass(frozen=True)
class Site:
    """One place of a file; @choices: what stands there in its mutants, @kind: what it is."""
    path: str
    line: int
    start: int
    end: int
    kind: str
    choices: tuple
    function: str
    ordinal: int

    def mutate(self, text, choice):
        return text[:self.start] + choice + text[self.end:]

    def describe(self, text, choice):
        """The line with the change in it, white space folded, so that it is the same when lines
        move.
        """
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        old = re.sub(r"\s+", " ", text[self.start:self.end])
        line = f"{text[first:self.start]}[{old} => {choice or 'nothing'}]{text[self.end:last]}"
        return re.sub(r"\s+", " ", line).strip()


def constant_choices(text):
    """A number's neighbours; a real number's half more, and zero."""
    digits = re.match(r"(0[xX][0-9a-fA-F]+|[\d.]+(?:[eE][-+]?\d+)?)(.*)", text)
    body, suffix = digits.group(1), digits.group(2)
    if body[:2].lower() != "0x" and (re.search(r"[.eE]", body) or "f" in suffix.lower()):
        return (f"({text} * 1.5{suffix})", f"0.0{suffix}") if float(body) else (f"1.0{suffix}",)
    octal = len(body) > 1 and body[0] == "0" and body.isdigit()
    value = int(body, 8 if octal else 0)
    up, down = (f"{v}{suffix}" for v in (value + 1, value - 1))
    return (up, down) if value else (up,)


def tokens(text):
    """Tokens of @text without white space, comments and preprocessor lines: (kind, text, offset)."""
    skip_to = 0
    for m in TOKEN.finditer(text):
        if m.start() < skip_to or m.lastgroup in ("space", "comment"):
            continue
        if m.group() == "#" and not text[text.rfind("\n", 0, m.start()) + 1:m.start()].strip():
            end = re.compile(r"(?:\\\n|[^\n])*").match(text, m.start())
            skip_to = end.end()
            continue
        yield m.lastgroup, m.group(), m.start()


def closing(toks, at):
    """Index of the parenthesis that closes the one at @at."""
    depth = 0
    for i in range(at, len(toks)):
        depth += {"(": 1, ")": -1}.get(toks[i][1], 0)
        if depth == 0:
            return i
    return None


class Functions:
    """The function that each token is in, found by the braces: the word before the parameters at depth 0."""

    def __init__(self):
        self.depth = self.parens = 0
        self.candidate = self.name = ""
        self.previous = ""

    def feed(self, kind, text):
        if text == "(":
            if self.depth == 0 and self.parens == 0 and self.previous:
                self.candidate = self.previous
            self.parens += 1
        elif text == ")":
            self.parens -= 1
        elif text == "{":
            if self.depth == 0:
                self.name = self.candidate
            self.depth += 1
        elif text == "}":
            self.depth -= 1
            if self.depth == 0:
                self.name = self.candidate = ""
        elif text in (";", "=") and self.depth == 0:
            self.candidate = ""
        self.previous = text if kind == "word" else ""
        return self.name if self.depth else ""


def operand_before(toks, i):
    """Whether an operand stands before an operator; a pointer's star has no space behind it."""
    if i == 0 or i + 1 >= len(toks) or (toks[i][1] in "*&" and toks[i + 1][2] == toks[i][2] + 1):
        return False
    kind, text, _ = toks[i - 1]
    return kind in ("number", "char") or (kind == "word" and text not in NOT_OPERANDS) or text in (")", "]")


def branch(toks, i):
    """(first, last token, choices) of the condition of an if, a while or a ternary's arms' choice."""
    if toks[i][1] not in ("if", "while") or i + 1 >= len(toks) or toks[i + 1][1] != "(":
        return None
    end = closing(toks, i + 1)
    if end is None or end <= i + 2:
        return None
    return i + 2, end - 1, ("1", "0") if toks[i][1] == "if" else ("0",)


def choices_at(toks, i):
    kind, text, _ = toks[i]
    if kind == "number":
        return "constant", constant_choices(text)
    if kind == "word" and text in ("true", "false"):
        return "constant", ("false" if text == "true" else "true",)
    if kind == "word" and text in ("break", "continue"):
        return "branch", ("",) if text == "break" else ("break",)
    if kind == "op" and text in SWAPS and (text not in BINARY_ONLY or operand_before(toks, i)):
        return "operator", tuple(SWAPS[text])
    return None, ()


def sites(path, text):
    """All sites of a file in order."""
    toks = list(tokens(text))
    functions = Functions()
    found = []
    for i, (kind, word, start) in enumerate(toks):
        name = functions.feed(kind, word)
        what, choices = choices_at(toks, i)
        spans = [(start, start + len(word), what, choices)] if choices else []
        cond = branch(toks, i)
        if cond:
            first, last = toks[cond[0]], toks[cond[1]]
            spans.append((first[2], last[2] + len(last[1]), "branch", cond[2]))
        for a, b, what, choices in spans:
            found.append(Site(path, text.count("\n", 0, a) + 1, a, b, what, choices, name, len(found)))
    return found


def pick(site, seed):
    """The one mutant of a site under a seed."""
    return random.Random(f"{seed} {site.path} {site.ordinal}").choice(site.choices)
