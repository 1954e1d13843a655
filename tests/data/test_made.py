"""How a split was made: typed, and checked when it is read."""

import json

import numpy as np
import pytest

from purerec.data.interactions import Interactions
from purerec.data.made import Made, SplitParameters
from purerec.data.splits import Split, split
from purerec.errors import StoreError

OLD = {
    "method": "temporal",
    "seed": 0,
    "parameters": {"at": "2024-05-01", "on": "positives"},
    "rows": 10,
    "duplicates_dropped": 0,
    "train": 6,
    "valid": 2,
    "test": 2,
}
"""As written by every version"""


def test_what_is_written_is_read_again():
    for facts in (OLD, {"method": "official", "seed": 0, "parameters": {"fold": 1}}, {"parameters": {}}):
        assert Made.read(json.loads(json.dumps(facts))).to_dict() == facts
    assert Made.read({}) == Made()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "random"}, "made: method='random' should be 'official', 'given', 'ratio'"),
        ({"parameters": {"tset": 0.2}}, "made: parameters.tset=0.2 extra inputs"),
        ({"rows": "ten"}, "made: rows='ten' should be a valid integer"),
        ({"sed": 0}, "made: sed=0"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(StoreError) as error:
        Made.read(OLD | change)
    assert message in str(error.value)


def test_numbers_of_numpy_are_kept_as_plain_ones():
    users = np.repeat(np.arange(10), 6)
    log = Interactions.from_columns(users, np.tile(np.arange(6), 10))
    made = split(log, "leave_n_out", n=np.int64(2)).made
    assert made.parameters == SplitParameters(n=2)
    assert type(made.parameters.n) is int


def test_parts_put_together_by_hand():
    log = Interactions.from_columns([1, 1, 2], [1, 2, 1])
    parts = Split(log.subset(np.array([0, 1])), None, log.subset(np.array([2])))
    assert parts.made == Made()
    assert parts.label == "given seed=None"
