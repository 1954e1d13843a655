"""One seed, many streams."""

import numpy as np
import pytest

from purerec.errors import ConfigError
from purerec.rng import key64, named_rng


def test_a_seed_and_a_purpose_always_give_the_same_stream():
    assert named_rng(3, "init").random(5).tolist() == named_rng(np.int64(3), "init").random(5).tolist()
    assert key64(3, "init") == key64(3, "init")


def test_purposes_and_seeds_have_streams_of_their_own():
    asked = [(seed, name) for seed in range(20) for name in ("split", "init", "sampling", "noise", "evaluation")]
    assert len({key64(*one) for one in asked}) == len({named_rng(*one).random() for one in asked}) == len(asked)


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    named_rng(0, "split").random(10)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("seed", [-1, 0.5, True, "1", None])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ConfigError, match="seed must be a whole number of at least 0"):
        named_rng(seed, "split")
