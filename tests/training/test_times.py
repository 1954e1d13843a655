"""Times as people write them."""

import pytest

from purerec.errors import ConfigError
from purerec.training.times import seconds_of


def test_seconds_of_a_limit() -> None:
    assert [seconds_of(text) for text in ("90", "90s", "5m", "1.5h", "1h30m")] == [90, 90, 300, 5400, 5400]
    assert [seconds_of(number) for number in (90, 0.5)] == [90, 0.5]
    for wrong in ("", "5 minutes", "m", "-5m", "0", "5d", "1e3", -1, 0):
        with pytest.raises(ConfigError, match="90s, 5m or 1h"):
            seconds_of(wrong)
