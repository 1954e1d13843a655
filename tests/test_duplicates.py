"""No two places in src share six or more literal lines: the same code is written once.

Signatures do not count: functions of one interface have the same arguments.
"""

import ast
import io
import tokenize
from collections import defaultdict

from conftest import ROOT

SOURCE = ROOT / "src" / "purerec"
LINES = 6
ALLOWED = {
    # The same loop over tiles around another inner call. Numba could share it only by passing the inner function as
    # an argument, which its cache does not keep.
    frozenset(["ranking/rank_counts.py", "ranking/top_lists.py"]),
}
"""Pairs of files that may share lines, each with a reason."""


def code_lines(path):
    """(number, text) of lines that do something: no imports, signatures, docstrings, comments or closing brackets."""
    text = path.read_text()
    skipped = set()
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            skipped |= set(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped |= set(range(node.lineno, node.body[0].lineno))
    comments = {
        token.start[0]: token.start[1]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        plain = " ".join(line[: comments.get(number)].split())
        if number not in skipped and plain.strip("()[]{},"):
            found.append((number, plain))
    return found


def shared_runs():
    """Runs of at least LINES lines that occur twice: (file, first line), (file, first line), how many lines."""
    code = {path: code_lines(path) for path in sorted(SOURCE.rglob("*.py"))}
    windows = defaultdict(list)
    for path, lines in code.items():
        for at in range(len(lines) - LINES + 1):
            windows[tuple(text for _, text in lines[at : at + LINES])].append((path, at))
    starts = {(a, b) for places in windows.values() for a in places for b in places if a < b}
    for (one, at), (other, there) in sorted(starts):
        if ((one, at - 1), (other, there - 1)) in starts:
            continue  # the middle of a longer run
        length = LINES
        while ((one, at + length - LINES + 1), (other, there + length - LINES + 1)) in starts:
            length += 1
        yield (one, code[one][at][0]), (other, code[other][there][0]), length


def test_no_two_places_share_six_lines():
    found = []
    for (one, at), (other, there), length in shared_runs():
        names = [str(path.relative_to(SOURCE)) for path in (one, other)]
        if frozenset(names) not in ALLOWED:
            found.append(f"{names[0]}:{at} and {names[1]}:{there} share {length} lines")
    assert not found, "\n".join(found)
