"""Passes over the bytes of a table: what its quotation marks mean, whether all rows have the same number of fields,
and whether parsing would change a number.

polars checks none of this: a quotation mark within a field, as in 27" monitor, makes it join rows up to the next one,
and the fields of a row are not counted if some columns are not needed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from purerec.data.text.contents import BLANK

_CHUNK = 1 << 17
"""Bytes; stays in the cache during all passes over it"""
_MARK, _NEWLINE, _RETURN = b'"\n\r'
_BLANK = BLANK.encode()

_Bytes = npt.NDArray[np.uint8]
_Positions = npt.NDArray[np.int64]
Raw = bytes | mmap.mmap


def stray_mark(raw: Raw, start: int, delimiter: str) -> int | None:
    """Where the first quotation mark is that neither opens nor closes a quoted field; None if there is none."""
    view, separator = np.frombuffer(raw, dtype=np.uint8), ord(delimiter)
    n_before, last = 0, None
    for marks in _marks(view, start):
        opens = np.arange(n_before, n_before + len(marks)) % 2 == 0
        stray = ~np.where(opens, _may_open(view, marks, start, separator), _may_close(view, marks, separator))
        if stray.any():
            return int(marks[stray.argmax()])
        n_before, last = n_before + len(marks), int(marks[-1])
    return last if n_before % 2 else None  # never closed


def uneven_row(raw: Raw, start: int, delimiter: str, n_fields: int, *, quoted: bool) -> int | None:
    """Where the first row starts that has another number of fields and is not blank; None if there is none.

    `quoted`: delimiters and line breaks between quotation marks are part of a field.
    """
    quoted = quoted and raw.find(b'"', start) >= 0
    if not quoted and _is_even(raw, start, delimiter, n_fields):
        return None
    view, expected = np.frombuffer(raw, dtype=np.uint8)[start:], (n_fields - 1) * len(delimiter)
    inside, n_before, row = np.uint8(0), 0, 0
    for at in range(0, len(view), _CHUNK):
        part = view[at : at + _CHUNK]
        ends = part == _NEWLINE
        cuts = (part == ord(delimiter[0])) | ends
        if quoted:
            marks = (np.cumsum(part == _MARK, dtype=np.uint8) + inside) & 1  # odd or even, which survives overflow
            cuts &= marks == 0
            inside = marks[-1]
        found = np.flatnonzero(cuts)
        lines = np.flatnonzero(ends[found])  # which of them are line breaks
        counts = np.diff(lines, prepend=-1) - 1
        if not len(lines):
            n_before += len(found)
            continue
        counts[0] += n_before
        n_before = len(found) - 1 - int(lines[-1])
        stops = found[lines] + at
        for n in np.flatnonzero(counts != expected):
            first = int(stops[n - 1]) + 1 if n else row
            if bytes(view[first : stops[n]]).strip(_BLANK):
                return start + first
        row = int(stops[-1]) + 1
    unfinished = n_before != expected and bytes(view[row:]).strip(_BLANK)
    return start + row if unfinished else None


def _is_even(raw: Raw, start: int, delimiter: str, n_fields: int) -> bool:
    """Return whether all rows have the same number of fields, and none is blank: the usual case, told quickly."""
    row = delimiter.encode() * (n_fields - 1) + b"\n"
    others = bytes(set(range(256)) - set(row))
    done = 0
    for at in range(start, len(raw), 8 * _CHUNK):
        found = raw[at : at + 8 * _CHUNK].translate(None, others)
        first = done % len(row)
        if found != (row * (len(found) // len(row) + 2))[first : first + len(found)]:
            return False
        done += len(found)
    unfinished = len(raw) > start and raw[-1:] != b"\n"
    return (done + unfinished) % len(row) == 0


def may_have_unusual_integers(raw: Raw, start: int) -> bool:
    """Return whether a number is written as 007, +7 or ' 7', so that parsing it as an integer would change it."""
    view = np.frombuffer(raw, dtype=np.uint8)[start:]
    for start in range(0, len(view), _CHUNK):
        part = view[max(start - 1, 0) : start + _CHUNK + 1]
        if (part == 43).any() or (part == 32).any():  # '+' or ' '
            return True
        before, here, after = part[:-2], part[1:-1], part[2:]
        zero = here == 48
        zero &= (before - np.uint8(48)) > 9  # not preceded by a digit
        if zero.any():  # rare: a number that starts with 0
            at = np.flatnonzero(zero)
            leading = (after[at] - np.uint8(48)) <= 9  # a digit after it
            if (leading & (before[at] != 46)).any() or (before[at] == 45).any():  # but 4.05 is not 05; and -0
                return True
    return bool(len(view) > 1 and view[0] == 48 and 48 <= view[1] <= 57)


def has_other_colons(raw: Raw, start: int) -> bool:
    """Return whether a colon is not part of '::'; polars, which splits at single bytes, would also split there."""
    view = np.frombuffer(raw, dtype=np.uint8)[start:]
    for at in range(0, len(view), _CHUNK):
        colon = view[max(at - 1, 0) : at + _CHUNK + 1] == 58
        if ((colon[:-2] ^ colon[2:]) < colon[1:-1]).any():
            return True
    return False


def _marks(view: _Bytes, start: int) -> Iterator[_Positions]:
    """The positions of quotation marks, some at a time."""
    for at in range(start, len(view), _CHUNK):
        found = np.flatnonzero(view[at : at + _CHUNK] == _MARK)
        if len(found):
            yield found + at


def _may_open(view: _Bytes, marks: _Positions, start: int, separator: int) -> npt.NDArray[np.bool_]:
    """Which marks are at the start of a field, or are the second of two."""
    before = view[np.maximum(marks - 1, 0)]
    found = _among(before, separator, _NEWLINE, _MARK)
    found[marks == start] = True
    return found


def _may_close(view: _Bytes, marks: _Positions, separator: int) -> npt.NDArray[np.bool_]:
    """Which marks are at the end of a field, or are the first of two."""
    after = view[np.minimum(marks + 1, len(view) - 1)]
    found = _among(after, separator, _NEWLINE, _RETURN, _MARK)
    found[marks == len(view) - 1] = True
    return found


def _among(found: _Bytes, *wanted: int) -> npt.NDArray[np.bool_]:
    is_wanted = np.zeros(256, dtype=bool)
    is_wanted[list(wanted)] = True
    return is_wanted[found]
