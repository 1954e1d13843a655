import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from purerec.data.large.partitioning import parts_of


def test_the_part_of_an_id_is_fixed_forever():
    # crc32 of '0', '1', 'ann', 'Ünal' and '-5', from another program (Python's binascii, zlib's crc32).
    sums = [0xF4DBDF21, 0x83DCEFB7, 0x4DB39F55, 0x35FFF5F8, 0xBB00B90A]
    import binascii

    texts = ["0", "1", "ann", "Ünal", "-5"]
    assert [binascii.crc32(text.encode()) for text in texts[:2]] == sums[:2]
    assert parts_of(pl.Series(texts), 1000).tolist() == [binascii.crc32(t.encode()) % 1000 for t in texts]
    assert parts_of(pl.Series(["0", "1"]), 1 << 10).tolist() == [s % 1024 for s in sums[:2]]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(1, 4096))
def test_numbers_and_text_agree(ids, n_parts):
    numbers = pl.Series(ids, dtype=pl.Int64)
    found = parts_of(numbers, n_parts)
    assert np.array_equal(found, parts_of(numbers.cast(pl.String), n_parts))
    assert found.min() >= 0
    assert found.max() < n_parts


def test_parts_are_of_about_the_same_size():
    for ids in (pl.Series(np.arange(64_000)), pl.Series([f"user-{n * 7:08d}" for n in range(64_000)])):
        sizes = np.bincount(parts_of(ids, 64), minlength=64)
        assert sizes.max() < 1.25 * sizes.mean()
        assert sizes.min() > 0.75 * sizes.mean()
