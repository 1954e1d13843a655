"""What the parser gets at once: never beyond a request, never beyond its limits, however the bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purerec.serving.http.pieces import Pieces
from purerec.serving.process.settings import Limits

LIMITS = Limits(head_bytes=200, body_bytes=500)
HEAD = b"POST / HTTP/1.1\r\nhost: a\r\n\r\n"
CHUNKS = b"5\r\nhello\r\n4;a=b\r\n\r\n\r\n\r\n0\r\n"


def fed(pieces: Pieces, arrived: list[bytes]) -> list[bytes]:
    """The pieces, as a parser would get them."""
    found = []
    for data in arrived:
        at = 0
        while at < len(data):
            size = pieces.cut(data, at)
            if not size:
                return found
            found.append(data[at : at + size])
            at += size
    return found


def split(data: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted({place % (len(data) + 1) for place in places})
    return [part for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if (part := data[start:end])]


@given(st.lists(st.integers(0, 10_000), max_size=30), st.booleans())
def test_a_piece_ends_where_a_request_does(places: list[int], has_trailers: bool):
    """For consecutive requests: no piece that a parser gets spans two of them."""
    body = CHUNKS + (b"x: y\r\nz: \r\n\r\n" if has_trailers else b"\r\n")
    stream = (HEAD + body) * 3
    ends = {n * len(HEAD + body) for n in (1, 2, 3)} | {n * len(HEAD + body) + len(HEAD) for n in (0, 1, 2)}
    pieces, at, seen = Pieces(LIMITS), 0, set()
    for data in split(stream, places):
        start = 0
        while start < len(data):
            size = pieces.cut(data, start)
            assert size > 0
            assert not any(at < end < at + size for end in ends)
            at, start = at + size, start + size
            if at in ends:
                seen.add(at)
                if at % len(HEAD + body):
                    pieces.expect_rest(None)
                else:
                    pieces.expect_head()
    assert seen == ends


@given(st.lists(st.integers(0, 10_000), max_size=10))
def test_a_body_with_a_length_ends_there(places: list[int]):
    pieces = Pieces(LIMITS)
    pieces.expect_rest(100)
    assert b"".join(fed(pieces, split(b"\r\n\r\n" * 50, places))) == b"\r\n\r\n" * 25


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_no_more_than_the_limits(size: int):
    def sent(pieces: Pieces, piece: bytes) -> int:
        return len(b"".join(fed(pieces, split(piece * 2000, list(range(0, 2000 * len(piece), size))))))

    assert sent(Pieces(LIMITS), b"y") == 200
    for piece in (b"y", b"x: y\r\n", b"4\r\n\r\n\r\n\r\n"):
        pieces = Pieces(LIMITS)
        pieces.expect_rest(None)
        assert sent(pieces, piece) <= 700
    pieces = Pieces(LIMITS)
    pieces.drop()
    assert sent(pieces, b"y" * 4000) == 4 << 20


def test_bytes_of_a_body():
    pieces = Pieces(LIMITS)
    pieces.expect_rest(None)
    assert pieces.fits(b"y" * 499)
    assert pieces.fits(b"y")
    assert not pieces.fits(b"y")
    pieces.expect_rest(None)
    assert pieces.fits(b"y" * 500)
