"""The `negatives` and `candidates` settings of GMF, PU-GMF and PURE; the choice: engines/pure/cpu/test_choice.py."""

import numpy as np
import pytest

import purerec as pr
from conftest import need
from purerec.errors import ConfigError
from purerec.training.run import Run


def log():
    rng = np.random.default_rng(0)
    user = rng.integers(0, 60, 1500)
    return pr.Interactions.from_columns(user, 2 * rng.integers(0, 25, 1500) + user % 2)


def scores(model):
    return model.score(np.arange(len(model.users)))


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@pytest.mark.parametrize("negatives", ["dns", "drns"])
@pytest.mark.parametrize("name", ["gmf", "pugmf", "pure"])
def test_dynamic_negatives(name, negatives, engine, tmp_path):
    if engine == "torch":
        need("torch")
    more = {"pretrain_epochs": 3} if name == "pure" else {}
    make = lambda: pr.make_model(  # noqa: E731
        name, negatives=negatives, candidates=3, engine=engine, dim=4, epochs=6, **more
    )
    whole = make().fit(log(), seed=2)
    uniform = pr.make_model(name, engine=engine, dim=4, epochs=6, **more).fit(log(), seed=2)
    assert np.isfinite(scores(whole)).all()
    assert not np.array_equal(scores(whole), scores(uniform))
    make().fit(log(), seed=2, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=2, stop_after=4))
    resumed = make().fit(log(), seed=2, run=Run(checkpoint=tmp_path / "c", resume=True))
    np.testing.assert_array_equal(scores(resumed), scores(whole))


def test_candidates_are_bounded():
    with pytest.raises(ConfigError, match="candidates"):
        pr.PUGMF(negatives="dns", candidates=0)
    with pytest.raises(ConfigError, match="negatives"):
        pr.GMF(negatives="hard")
