"""Blank lines in files of interactions: skipped wherever they are, but counted, and kept inside quotes."""

import gzip

import pytest

from data.test_readers import rows, write
from purerec.data.readers import read
from purerec.errors import ReadError

FORMATS = {
    "a.csv": ("user,item,rating", "{},{},{}"),
    "a.tsv": ("user\titem\trating", "{}\t{}\t{}"),
    "a.dat": ("user::item::rating", "{}::{}::{}"),
    "a.inter": ("user_id:token\titem_id:token\trating:float", "{}\t{}\t{}"),
    "a.rating": ("user\titem\trating", "{}\t{}\t{}"),
}
BLANKS = {"nothing": "", "spaces": "   ", "tab": "\t", "mixed": " \t ", "mark": "\ufeff"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("blank", BLANKS.values(), ids=BLANKS.keys())
@pytest.mark.parametrize("name", FORMATS)
def test_blank_lines_are_skipped_wherever_they_are(tmp_path, name, blank, end):
    header, row = FORMATS[name]
    for ids in ([(1, 2), (3, 4), (5, 6)], [("ann", "b-1"), ("bob", "b-2"), ("cat", "007")]):
        body = [row.format(user, item, 4) for user, item in ids]
        for head in ([header], []):
            lines = head + body
            for at in [*range(len(lines) + 1), None]:  # one place after the other, then every place at once
                mixed = [x for n, line in enumerate(lines) for x in ([blank, line] if at in (n, None) else [line])]
                mixed += [blank] * (at in (len(lines), None))
                content = (end.join(mixed) + end).encode()
                assert rows(read(write(tmp_path, name, content))) == [(*pair, 4.0) for pair in ids], content
            packed = write(tmp_path, name + ".gz", gzip.compress(content))
            assert rows(read(packed)) == [(*pair, 4.0) for pair in ids]


def test_a_mark_before_a_blank_first_line(tmp_path):
    assert rows(read(write(tmp_path, "a.csv", "\ufeff\r\nuser,item\r\n1,2\r\n"))) == [(1, 2)]
    assert rows(read(write(tmp_path, "a.csv", "\ufeff \n1,2\n3,4\n"))) == [(1, 2), (3, 4)]


def test_more_blank_lines_than_are_looked_at_first(tmp_path):
    content = "\n" * 100_000 + "user,item\n" + " \n" * 100_000 + "1,2\n"
    assert rows(read(write(tmp_path, "a.csv", content))) == [(1, 2)]
    with pytest.raises(ReadError, match="row 200003 has 3 fields"):
        read(write(tmp_path, "a.csv", content + "3,4,5\n"))


def test_rows_are_counted_with_blank_lines_and_over_quoted_line_ends(tmp_path):
    with pytest.raises(ReadError, match="row 6 has the rating 'x'"):
        read(write(tmp_path, "a.csv", "\nuser,item,rating\n\n1,2,3\n  \n1,3,x\n"))
    with pytest.raises(ReadError, match="row 5 has no item"):
        read(write(tmp_path, "a.csv", 'user,item\na,b\n"two\nlines",c\nd,\n'))


def test_a_row_without_ids_but_with_something_else_is_no_blank_line(tmp_path):
    with pytest.raises(ReadError, match="row 3 has no user"):
        read(write(tmp_path, "a.csv", "user,item,note\n1,2,x\n,,y\n"))
    assert rows(read(write(tmp_path, "a.csv", "user,item,note\n1,2,x\n,,\n"))) == [(1, 2)]


def test_line_ends_and_blank_lines_inside_quotes_are_part_of_an_id(tmp_path):
    data = read(write(tmp_path, "a.csv", 'user,item\n"a\n\nb",1\n\n"c\x85\u2028",2\n'))
    assert rows(data) == [("a\n\nb", 1), ("c\x85\u2028", 2)]
