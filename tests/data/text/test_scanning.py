"""Passes over bytes, compared with Python's csv module row by row, also where chunks end in the middle of a row."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purerec.data.text import scanning
from purerec.data.text.scanning import stray_mark, uneven_row


@pytest.fixture(autouse=True, params=[3, 1 << 17])
def chunk(request, monkeypatch):
    monkeypatch.setattr(scanning, "_CHUNK", request.param)


def well_quoted(cell):
    return '"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\n\r') else cell


cells = st.text('ab",\n\r ', max_size=5)


@given(st.lists(st.lists(cells, min_size=2, max_size=3), min_size=1, max_size=5))
def test_what_the_csv_module_writes_has_no_stray_marks_and_its_fields(table):
    text = "".join(",".join(map(well_quoted, row)) + "\n" for row in table)
    raw = text.encode()
    assert stray_mark(raw, 0, ",") is None
    if "\r" in text:  # the module also ends rows at CR
        return
    reader, uneven, start = csv.reader(io.StringIO(text, newline="")), None, 0
    for row in reader:
        if len(row) != 2 and (len(row) > 1 or "".join(row).strip()) and uneven is None:
            uneven = start
        start = sum(len(line) + 1 for line in text.split("\n")[: reader.line_num])
    assert uneven_row(raw, 0, ",", 2, quoted=True) == uneven


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,"b",c\n', None),
        ('"a ""quoted"" word",""\n', None),
        ('"a"\r\n"b"', None),
        ('27" monitor,5\n', 2),
        ('a,"b\n', 2),
        ('a,"b" c,d\n', 4),
        ('a, "b"\n', 3),
    ],
)
def test_stray_marks(text, expected):
    assert stray_mark(text.encode(), 0, ",") == expected


def test_the_start_is_the_start_of_a_field():
    assert stray_mark(b'x"a",b\n', 1, ",") is None
    assert stray_mark(b'x"a",b\n', 0, ",") == 1


@pytest.mark.parametrize(
    ("text", "delimiter", "fields", "quoted", "expected"),
    [
        ("1,2\n3,4\n", ",", 2, True, None),
        ("1,2\n\n \r\n3,4", ",", 2, True, None),
        ("1,2\n3,4,5\n6\n", ",", 2, True, 4),
        ("1,2\n3", ",", 2, True, 4),
        ('1,"2,3"\n4,5\n', ",", 2, True, None),
        ('1,"2,3"\n4,5\n', ",", 2, False, 0),
        ('1,2" a\n4,5" b\n', ",", 2, False, None),
        ("1::2\n3::4::5\n", "::", 2, False, 5),
        ("", ",", 2, True, None),
    ],
)
def test_uneven_rows(text, delimiter, fields, quoted, expected):
    assert uneven_row(text.encode(), 0, delimiter, fields, quoted=quoted) == expected
    shifted = uneven_row(("x\n" + text).encode(), 2, delimiter, fields, quoted=quoted)
    assert shifted == (None if expected is None else expected + 2)
