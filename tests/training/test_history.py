"""Records of epochs, and how checkpoints and manifests keep them."""

import json
import math

import pytest

from purerec.training.history import History, Record

FLAT = {"epoch": 3, "phase": "the game", "loss": 0.5, "D(fake)": math.inf, "P@5": 0.25, "seconds": 1.5}


def test_a_record_is_kept_in_one_table():
    """As in checkpoints and logs of earlier versions."""
    record = Record.read(json.loads(json.dumps(FLAT)))
    assert record == Record(3, {"loss": 0.5, "D(fake)": math.inf, "P@5": 0.25}, "the game", 1.5)
    assert record.to_dict() == FLAT
    assert list(record.to_dict()) == list(FLAT)


@pytest.mark.parametrize(
    "wrong", [{"epoch": "3"}, {"epoch": True}, {"loss": None}, {"loss": "low"}, {"phase": 1}, {"seconds": "long"}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(TypeError, match=next(iter(wrong))):
        Record.read(FLAT | wrong)
    with pytest.raises(KeyError, match="epoch"):
        Record.read({"loss": 0.5})


def test_validations_since_the_best_are_counted_by_the_metric():
    """Whatever its name: no other number is mistaken for it."""
    records = [Record(n, {"loss": 1.0, "x@y": 2.0} | ({"Coverage@5": 0.1} if n % 2 else {})) for n in range(8)]
    assert History(records, metric="Coverage@5", best_epoch=3).bad_rounds == 2
    assert History(records, metric="Coverage@5").bad_rounds == 0
