"""What a text file of interactions looks like: delimiter, header, and which column is which.

Only the beginning of the file is inspected. The caller can override guesses, and a wrong one leads to an error that
shows the columns, never to silent misreading.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from purerec.data.text.contents import BLANK
from purerec.errors import ReadError

Role = Literal["user", "item", "rating", "timestamp", "label"]
ROLES: tuple[Role, ...] = ("user", "item", "rating", "timestamp", "label")
ColumnRoles = dict[Role, str | int | None]
"""The name or position of each column that was specified"""

_NAMES: dict[Role, str] = {
    "user": """userid uid customerid custid clientid visitorid memberid reviewerid accountid personid profileid
        user usr username customer client visitor member reviewer account person profile buyer sessionid session
        uuid u""",
    "item": """itemid iid movieid filmid productid articleid trackid songid artistid bookid businessid gameid
        animeid videoid newsid venueid poiid placeid recipeid contentid item itm sku asin parentasin isbn
        movie film product prod article track song artist book business game anime video news venue poi place
        recipe content i""",
    "rating": "rating ratings rate stars star score overall preference r",
    "timestamp": """timestamp ts datetime unixtime unixreviewtime reviewtime created createdat
        eventtime eventdate ratedat playedat listenedat watchedat viewedat clickedat boughtat purchasedat
        purchasedate orderedat orderdate when date time t""",
    "label": "title itemtitle movietitle itemname productname moviename label itemlabel",
}
KNOWN_NAMES: dict[Role, tuple[str, ...]] = {role: tuple(names.split()) for role, names in _NAMES.items()}
"""Recognised column names, the most specific first: ids before names, a date before a time of day. Case, '_', '-' and
spaces are ignored."""

_DELIMITERS = ("::", "\t", ",", ";", "|", " ")
_SUFFIX_DELIMITER = {".dat": "::", ".tsv": "\t", ".inter": "\t", ".rating": "\t"}
_TYPE = ":[a-z_]+$"
"""As in user_id:token, a heading of RecBole"""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
CANONICAL_INTEGER = re.compile(r"(0|-?[1-9]\d{0,17})$")


@dataclass(frozen=True)
class TextLayout:
    """How to read the file."""

    delimiter: str
    has_header: bool
    names: tuple[str, ...]
    """One per column of the file; 'column 1', ... if the file has no header"""
    roles: dict[Role, int]
    """The column position of each role that was found"""
    sample: tuple[tuple[str, ...], ...]
    """The first rows"""
    quoted: bool = True
    """Whether delimiters and line breaks between quotation marks are part of a field"""

    @property
    def found(self) -> FoundColumns:
        in_order = sorted(self.roles.items(), key=lambda role_at: role_at[1])
        return FoundColumns({role: self.names[at] for role, at in in_order}, by_position=not self.has_header)


@dataclass(frozen=True)
class FoundColumns:
    """Which column has which role."""

    names: dict[Role, str]
    by_position: bool
    """True if the file has no header, so that nothing but their order tells the columns apart."""


def sniff(
    text: str,
    *,
    where: str,
    suffix: str = "",
    delimiter: str | None = None,
    header: bool | None = None,
    columns: dict[Role, str | int | None],
    required: tuple[Role, ...] = ("user", "item"),
) -> TextLayout:
    """The layout of a file from its first complete lines."""
    _check_delimiter(delimiter, where)
    lines = [line for line in text_lines(text, most=200) if line.strip(BLANK)]
    if not lines:
        raise ReadError(f"{where}: the file has no rows; give a file with one interaction per line")
    if _is_json(lines[0]):
        raise ReadError(
            f"{where}: is JSON, which is not read directly; convert it to CSV, or register a reader for it "
            "(docs/extending.md has one for JSON lines)"
        )
    delimiter = delimiter or _find_delimiter(lines, suffix)
    rows = [split_line(line, delimiter) for line in lines]
    if len(rows[0]) < 2:
        raise ReadError(
            f"{where}: the first row has a single column ({_shorten(lines[0])!r}); at least a user and an item are "
            "needed, separated by comma, tab, semicolon, '|' or '::'"
        )
    if header is None:
        header = _has_header(rows, columns)
    if header:
        names = tuple(re.sub(_TYPE, "", cell.strip()) for cell in rows[0])
    else:
        names = tuple(f"column {n}" for n in range(1, len(rows[0]) + 1))
    body = tuple(tuple(row) for row in (rows[1:] if header else rows))
    roles = find_roles(names, columns, where=where, named=header, body=body, required=required)
    return TextLayout(delimiter, header, names, roles, body)


def plain_headings(cells: pl.Series) -> pl.Series:
    """Cells, written as the names in a layout are."""
    return cells.str.strip_chars().str.replace(_TYPE, "")


def text_lines(text: str, *, most: int = -1) -> list[str]:
    """Lines that end in LF or CRLF. (`str.splitlines` also splits at characters that may be part of an id.)"""
    return [line.removesuffix("\r") for line in text.split("\n", most)][: most if most > 0 else None]


def _is_json(line: str) -> bool:
    """Return whether a file that starts with this line is JSON."""
    return re.match(r'(\[\s*)?\{\s*("|$)|\[\s*$', line.strip(BLANK)) is not None


def _check_delimiter(delimiter: str | None, where: str) -> None:
    plain = delimiter is not None and len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n\0'
    if delimiter is not None and delimiter != "::" and not plain:
        raise ReadError(f"{where}: the delimiter {delimiter!r} cannot be used; give one ASCII character, or '::'")


def split_line(line: str, delimiter: str) -> list[str]:
    """The fields of one line; quotes are supported except with '::'."""
    if len(delimiter) > 1:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a field longer than the module accepts
        return line.split(delimiter)


def _find_delimiter(lines: Sequence[str], suffix: str) -> str:
    expected = _SUFFIX_DELIMITER.get(suffix)
    if expected is not None and expected in lines[0]:
        return expected
    rows = {delimiter: [split_line(line, delimiter) for line in lines[:50]] for delimiter in _DELIMITERS}
    fits = [d for d in _DELIMITERS if len(counts := {len(row) for row in rows[d]}) == 1 and counts != {1}]
    for delimiter in fits:
        # 1;2;3,5 could also be split at the comma, and Mon, 10:15 may end each line.
        others = [other for other in fits if other not in (delimiter, " ")]
        if not any(other in cell for row in rows[delimiter] for cell in row[:2] for other in others):
            return delimiter
    if fits:
        return fits[0]
    # No delimiter splits all lines alike: some row is broken. Use the first line's, so that the reader can name the
    # broken row.
    return next((d for d in _DELIMITERS[:-1] if d in lines[0]), ",")


def plain_name(name: str) -> str:
    """A column name without what is ignored in it."""
    return re.sub(r"[\W_]", "", re.sub(_TYPE, "", name.strip().lower()))


def _has_header(rows: Sequence[Sequence[str]], columns: dict[Role, str | int | None]) -> bool:
    first = [plain_name(cell) for cell in rows[0]]
    known = {name for names in KNOWN_NAMES.values() for name in names}
    asked = {plain_name(c) for c in columns.values() if isinstance(c, str)} - {""}
    # 'book' or 'game' may be an item as well as a heading; 'book_id' may not.
    telling = {"user", "item", "rating", "timestamp", "sku"} | {n for n in known if n.endswith("id")} | asked
    if any(cell in telling for cell in first) or sum(cell in known for cell in first) * 2 > len(first):
        return True
    body = rows[1:20]
    # Words above nothing but codes, such as who,what above u17,sku-3, are headings.
    if len(body) >= 5 and not _has_digit(rows[:1]) and all(_has_digit([[cell]]) for row in body for cell in row):
        return True
    # A text cell above a column of numbers is a heading.
    return bool(body) and any(
        not _NUMBER.match(cell.strip()) and all(n < len(row) and _NUMBER.match(row[n].strip()) for row in body)
        for n, cell in enumerate(rows[0])
    )


def _has_digit(rows: Sequence[Sequence[str]]) -> bool:
    return any(letter.isdigit() for row in rows for cell in row for letter in cell)


def find_roles(
    names: Sequence[str],
    columns: dict[Role, str | int | None],
    *,
    where: str,
    named: bool = True,
    body: Sequence[Sequence[str]] = (),
    required: tuple[Role, ...] = ("user", "item"),
) -> dict[Role, int]:
    """Which column is which: as specified, else by name, else (without a header) by position.

    An empty name leaves out a column that is not required.
    """
    roles: dict[Role, int] = {}
    unused = {role for role, asked in columns.items() if asked == "" and role not in required}
    for role, asked in columns.items():
        if asked is not None and role not in unused:
            roles[role] = _position(names, asked, role, where, named)
            other = next(r for r in roles if roles[r] == roles[role])
            if other != role:
                raise ReadError(
                    f"{where}: the column {names[roles[role]]!r} is given for both the {other} and the {role}; "
                    "give each its own column"
                )
    if named:
        for role in ROLES:
            candidates = [n for n, name in enumerate(names) if plain_name(name) in KNOWN_NAMES[role]]
            free = [n for n in candidates if n not in roles.values()]
            if role not in roles and free:
                # The most specific name wins: 'user_id' over 'session'.
                roles[role] = min(free, key=lambda n: KNOWN_NAMES[role].index(plain_name(names[n])))
        for role, at in roles.items():
            if list(names).count(names[at]) > 1 and not isinstance(columns.get(role), int):
                raise ReadError(f"{where}: several columns are called {names[at]!r}, the {role}; rename all but one")
    else:
        _roles_by_position(roles, len(names), body, required)
    missing = [role for role in required if role not in roles]
    if missing:
        raise ReadError(
            f"{where}: no column is recognised as the {missing[0]}; there are {_listed(names)}",
            "say which with " + ", ".join(f"{role}='NAME'" for role in missing),
            command=f"say which with {' '.join(f'--{role} NAME' for role in missing)}"
            if "user" in required
            else "call them item and title",
        )
    return {role: at for role, at in roles.items() if role not in unused}


def _roles_by_position(
    roles: dict[Role, int], n_columns: int, body: Sequence[Sequence[str]], required: tuple[Role, ...]
) -> None:
    order = list(required)
    if "user" not in required:
        pass
    elif n_columns == 3:
        third = [row[2].strip() for row in body if len(row) > 2]
        looks_like_time = all(_NUMBER.match(cell) is None or float(cell) > 1e8 for cell in third)
        order.append("timestamp" if third and looks_like_time else "rating")
    elif n_columns > 3:
        order += ["rating", "timestamp"]
    for n, role in enumerate(order):
        if role not in roles and n not in roles.values():
            roles[role] = n


def _position(names: Sequence[str], asked: str | int, role: str, where: str, named: bool) -> int:
    if isinstance(asked, bool) or not isinstance(asked, str | int):
        raise ReadError(f"{where}: {role}={asked!r} is neither the name of a column nor a position from 0")
    if isinstance(asked, int):
        if 0 <= asked < len(names):
            return asked
        raise ReadError(f"{where}: {role}={asked} is not a column position; there are {len(names)} columns from 0")
    for n, name in enumerate(names):
        if name == asked:
            return n
    for n, name in enumerate(names):
        if plain_name(asked) and plain_name(name) == plain_name(asked):
            return n
    if asked.isascii() and asked.isdigit() and len(asked) < 10 and not named and 1 <= int(asked) <= len(names):
        return int(asked) - 1
    fact = f"{where}: there is no column {asked!r} for the {role}; there are {_listed(names)}"
    if named:
        raise ReadError(fact)
    fact += "; the file has no header"
    raise ReadError(fact, f"give positions from 0, such as {role}=0", command=f"give positions from 1: --{role} 1")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return (", ".join(repr(_shorten(name)) for name in names[:20]) or "none") + more


def _shorten(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
