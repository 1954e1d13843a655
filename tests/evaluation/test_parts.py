"""Parts of the users that are measured separately give, together, the evaluation of all: to the last digit."""

from dataclasses import replace

import numpy as np
import pytest

import purerec as pr
from purerec.errors import ConfigError, DataError
from purerec.evaluation.parts import put_together


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(rng.integers(0, 200, 4000), (80 * rng.random(4000) ** 2).astype(np.int64))
    split = pr.split(log, "ratio", seed=0)
    return split, [pr.make_model(name, **settings).fit(split.full_train, seed=0) for name, settings in MODELS]


MODELS = [("itempop", {}), ("ease", {}), ("pugmf", {"epochs": 3}), ("pure", {"epochs": 3})]


@pytest.mark.parametrize("protocol", ["exact", "sampled"])
@pytest.mark.parametrize("n_parts", [1, 3, 7])
def test_the_same_digits(world, protocol, n_parts):
    split, models = world
    for model in models:
        whole = pr.evaluate(model, split, protocol=protocol, seed=3, pool=30)
        parts = [
            pr.evaluate(model, split, protocol=protocol, seed=3, pool=30, part=(n, n_parts))
            for n in reversed(range(n_parts))
        ]
        found = put_together(parts, split.train.n_users)
        assert found.metrics == whole.metrics
        assert (found.n_users_skipped, found.fingerprint) == (whole.n_users_skipped, whole.fingerprint)
        assert np.array_equal(found.user_idx, whole.user_idx)
        for name, values in whole.per_user.items():
            assert np.array_equal(found.per_user[name], values), name


def test_parts_without_anybody(world):
    split, models = world
    n = split.train.n_users
    parts = [pr.evaluate(models[0], split, part=(number, n)) for number in range(n)]
    assert put_together(parts, n).metrics == pr.evaluate(models[0], split).metrics


def test_parts_that_are_missing_twice_or_of_something_else(world):
    split, models = world
    parts = [pr.evaluate(models[0], split, part=(n, 3)) for n in range(3)]
    for wrong in (parts[:2], [*parts, parts[0]]):
        with pytest.raises(DataError, match="each must be in one part"):
            put_together(wrong, split.train.n_users)
    with pytest.raises(DataError, match="part 1 belongs to a different evaluation"):
        put_together([parts[0], replace(parts[1], seed=9), parts[2]], split.train.n_users)
    with pytest.raises(ConfigError, match="no parts"):
        put_together([], 10)
    for wrong in ((3, 3), "valid", (1,), (0.0, 2), (True, 2), (-1, 2), (0, 0)):
        with pytest.raises(ConfigError, match=r"part must be \(n, of\) .*, not"):
            pr.evaluate(models[0], split, part=wrong)
    with pytest.raises(ConfigError, match="lists of all users"):
        pr.evaluate(models[0], split, part=(0, 3), metrics="Coverage@10")
