"""Requirements on the rows of a table."""

import pytest

from purerec.data.readers import read
from purerec.errors import ReadError


def test_a_date_that_is_not_written_like_the_others(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,date\n1,2,2024-01-05\n1,3,2024-01-06\n2,3,2024-01-05T10:00:00Z\n")
    with pytest.raises(
        ReadError, match=r"row 4 has the timestamp '2024-01-05T10:00:00Z', a date that is not written "
    ):
        read(tmp_path / "a.csv")
