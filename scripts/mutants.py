"""Mutants of C++ functions, as text: where they are, and how all of one file are compiled at once. scripts/mutate uses it.

A *site* is an expression or a statement that has mutants. Its text is replaced by one that chooses, by number, between the
mutants and what was there:

    if (a < b) return;      becomes      if ((mutant::Is(1) ? (!(a < b)) : mutant::Is(2) ? (a <= b) : (a < b))) …

No line is added, so that errors of the compiler name lines of the source.
"""

import collections
import re
from typing import NamedTuple


class Mutant(NamedTuple):
    file: str
    function: str
    line: int
    operator: str
    before: str  # the expression or statement
    after: str   # what takes its place; empty: nothing
    start: int   # of the site in the file
    end: int
    kind: str    # of the site: "value", or "statement"
    nth: int = 1  # of those in the function that read the same

    @property
    def key(self):
        """Names it across changes elsewhere in its file."""
        which = f" ({self.nth})" if self.nth > 1 else ""
        return f"{self.file} {self.function} | {self.operator} | {self.before} -> {self.after or 'nothing'}{which}"


def blanked(text):
    """The text with comments, strings and characters blanked out, at the same places."""
    def blank(match):
        found = match.group()
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + "_" * (len(found) - 2) + found[-1]
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', blank, text, flags=re.DOTALL)


def closing(code, at):
    """Where the bracket that opens at `at` is closed."""
    depth = 0
    for i in range(at, len(code)):
        depth += code[i] in "([{"
        depth -= code[i] in ")]}"
        if depth == 0:
            return i
    raise ValueError(f"no bracket closes the one at {at}")


def bodies(code, function):
    """Where the bodies of the functions of this name (`Primary::Judge`) are, as pairs of places."""
    found = []
    for match in re.finditer(rf"^[A-Za-z].*?\b{re.escape(function)}\(|^{re.escape(function)}\(", code, re.MULTILINE):
        end = closing(code, match.end() - 1)
        opening = re.match(r"[\w\s]*(?::[^;{]*)?\{", code[end + 1:])
        if opening is not None:
            start = end + opening.end()
            found.append((start, closing(code, start)))
    if not found:
        raise ValueError(f"there is no function {function}")
    return found


SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "true": "false", "false": "true",
         "std::min": "std::max", "std::max": "std::min"}
TOKEN = re.compile(r"(?<= )(?:<=|>=|<|>|&&|\|\|)(?= )|\b(?:true|false)\b|\bstd::(?:min|max)(?=\()|(?<![\w.:])\d+(?![\w.:])")
NAMES = {"<": "boundary", "<=": "boundary", ">": "boundary", ">=": "boundary", "&&": "and, or", "||": "and, or",
         "true": "true, false", "false": "true, false", "std::min": "min, max", "std::max": "min, max"}


def swapped(code):
    """(operator, place, length, instead) of each token of an expression that has another one to take its place."""
    for match in TOKEN.finditer(code):
        token = match.group()
        if token in SWAPS:
            yield NAMES[token], match.start(), len(token), SWAPS[token]
        else:
            yield "constant", match.start(), len(token), str(int(token) + 1)
            if int(token) > 0:
                yield "constant", match.start(), len(token), str(int(token) - 1)


def top_level(code, char):
    """The first place of `char` outside of brackets; -1: there is none."""
    depth = 0
    for i, c in enumerate(code):
        if c == char and depth == 0:
            return i
        depth += c in "([{"
        depth -= c in ")]}"
    return -1


def only_planted(condition):
    """True if the condition holds only where a bug is planted. What it leads to then, and its limits, concern no user."""
    return all(re.search(r"(?:^|&& )Planted\(", either.strip()) is not None for either in condition.split("||"))


ASSIGNS = re.compile(r"(?<![=!<>+\-|&*/])=(?!=)")
KEYWORDS = re.compile(r"(?:else|do|try|case|default|break|continue|goto|using|static|constexpr|typedef|co_\w+|template|struct|class|ABSL_ASSIGN\w*)\b")
DECLARES = re.compile(r"(?:const\s+)?[A-Za-z_][\w:]*(?:<[^;()=]*>)?[\s*&]+(?:const\s+)?[A-Za-z_]\w*(?:\s*[={(;]|$)|(?:const\s+)?auto\b")


class _Finder:
    def __init__(self, file, text, function):
        self.file, self.text, self.function, self.code = file, text, function, blanked(text)
        self.found = []

    def note(self, operator, start, end, after, kind):
        before = " ".join(self.text[start:end].split())
        line = self.text.count("\n", 0, start) + 1
        self.found.append(Mutant(self.file, self.function, line, operator, before, " ".join(after.split()), start, end, kind))

    def site_text(self, start, end):
        """Without comments, so that it may stand on one line."""
        kept = [self.text[i] if self.code[i] != " " or self.text[i].isspace() else " " for i in range(start, end)]
        return "".join(kept)

    def expression(self, start, end, negate=False, kind="value"):
        while start < end and self.code[start].isspace():
            start += 1
        code, text = self.code[start:end], self.site_text(start, end)
        if not code.strip() or code.startswith(("{", "[")) or "Planted(" in code and not negate:
            return
        if re.search(r"\)\s*(?:mutable\s*)?(?:->[^{]*)?\{|\]\s*\{", code):
            return  # a lambda: its statements have sites of their own
        if negate:
            self.note("negate", start, end, f"!({text})", kind)
        for operator, at, length, instead in swapped(code):
            if operator == "and, or" or not only_planted(code):
                self.note(operator, start, end, text[:at] + instead + text[at + length:], kind)

    def condition(self, start, end):
        code = self.code[start:end]
        init = top_level(code, ";")
        if init >= 0:
            start, code = start + init + 1, code[init + 1:]
        if not ASSIGNS.search(code):
            self.expression(start, end, negate=True)

    def block(self, start, end, conditional=False):
        """Statements between these places; `conditional`: the only one is run by an if."""
        at = start
        while at < end:
            if self.code[at].isspace() or self.code[at] in ";}":
                at += 1
                continue
            at = self.statement(at, end, conditional)

    def statement(self, at, end, conditional=False):
        """Finds the sites of the statement that begins here, and returns where it ends."""
        code = self.code
        if code[at] == "{":
            close = closing(code, at)
            self.block(at + 1, close, conditional and code[at + 1:close].count(";") == 1)
            return close + 1
        head = re.compile(r"(if|while|for|switch)\s*(constexpr\s*)?\(").match(code, at)
        if head is not None:
            close = closing(code, head.end() - 1)
            inner = head.end()
            if head.group(1) == "for":
                first = top_level(code[inner:close], ";")
                if first >= 0:
                    second = inner + first + 1 + top_level(code[inner + first + 1:close], ";")
                    self.expression(inner + first + 1, second)
            elif head.group(1) in ("if", "while") and head.group(2) is None:
                self.condition(inner, close)
            after = close + 1
            while after < end and code[after].isspace():
                after += 1
            noted = len(self.found)
            stop = self.statement(after, end, head.group(1) == "if")
            if only_planted(code[inner:close]):
                del self.found[noted:]
            return stop
        word = re.compile(r"(else|do|try|case\b[^:]*:|default:)\s*").match(code, at)
        if word is not None:
            return self.statement(word.end(), end, word.group(1) == "else")
        stop = top_level(code[at:end], ";")
        if stop < 0:
            return end
        self.simple(at, at + stop, conditional)
        return at + stop + 1

    def simple(self, start, end, conditional):
        """A statement up to its semicolon."""
        code = self.code[start:end]
        for match in re.finditer(r"\)\s*(?:mutable\s*)?(?:->[^{;]*)?\{|\]\s*\{", code):  # the bodies of lambdas
            opening = start + match.end() - 1
            if opening >= end:
                break
            self.block(opening + 1, closing(self.code, opening))
        if code.startswith("return"):
            if conditional:
                self.note("drop", start, end + 1, "", "statement")
            self.expression(start + len("return"), end)
        elif re.match(r"(?:break|continue)$", code):
            if conditional:
                self.note("drop", start, end + 1, "", "statement")
        elif KEYWORDS.match(code):
            return
        elif DECLARES.match(code) and not re.match(r"[\w.:>\-\[\]]+\s*(?:[+\-|&*/]?=)", code):
            equals = ASSIGNS.search(code)
            if equals is not None and "{" not in code[:equals.start()]:
                self.expression(start + equals.end(), end)
        else:
            lambdas = re.search(r"\)\s*(?:mutable\s*)?\{|\]\s*\{", code)
            if not lambdas:
                self.note("drop", start, end + 1, "", "statement")
                for operator, at, length, instead in swapped(code):
                    text = self.site_text(start, end)
                    self.note(operator, start, end + 1, text[:at] + instead + text[at + length:] + ";", "statement")


def find(file, text, functions):
    """The mutants of these functions of a file, in their order there."""
    found = []
    for function in functions:
        finder = _Finder(file, text, function)
        for start, end in bodies(finder.code, function):
            finder.block(start + 1, end)
        found += finder.found
    seen, numbered = collections.Counter(), []
    for mutant in sorted(set(found), key=lambda m: (m.start, m.end, m.operator, m.after)):
        seen[mutant.key] += 1
        numbered.append(mutant._replace(nth=seen[mutant.key]))
    return numbered


def render(text, numbered):
    """The file with all mutants in it: `numbered` are (number, mutant) of this file, with sites that do not overlap partly."""
    sites = {}
    for number, mutant in numbered:
        sites.setdefault((mutant.start, mutant.end), []).append((number, mutant))
    starts = [(start, -end) for start, end in sites]

    def part(start, end, own=None):
        """The text between two places, with the sites in it, but for `own`."""
        out, at = [], start
        for first, minus in sorted(starts):
            last = -minus
            if first < at or last > end or (first, last) == own:
                continue
            out += [text[at:first], site(first, last)]
            at = last
        return "".join(out) + text[at:end]

    def site(start, end):
        mutants = sites[(start, end)]
        inside = part(start, end, own=(start, end))
        if mutants[0][1].kind == "statement":
            choices = "".join(f"if (mutant::Is({n})) {{ {m.after} }} else " for n, m in mutants)
            return f"{{ {choices}{{ {inside} }} }}"
        choices = "".join(f"mutant::Is({n}) ? ({m.after}) : " for n, m in mutants)
        # A comment at the end of the original would swallow the bracket: brackets stand before it.
        return f"({choices}({inside}\n))" if "//" in inside.rsplit("\n", 1)[-1] else f"({choices}({inside}))"

    return part(0, len(text))
