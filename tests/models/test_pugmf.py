"""A prior per user: what is refused, what is learned, and what all models can do with it."""

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard, need
from purerec.data.pairs import Csr
from purerec.errors import ConfigError
from purerec.sampling.unlabeled import without_full_users

SOFTMAX = {"prior": "per_user", "dim": 4}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unlabeled": "global"}, "compares items of one user; use unlabeled='per_user'"),
        ({"non_negative": True}, "no negative part to clamp"),
        ({"unlabeled_ratio": 0.5}, "a draw for each positive"),
        ({"prior": 0.1, "temperature": 2}, "temperature=2 needs prior='per_user'"),
        ({"prior": None, "temperature": 2}, "temperature=2 needs prior='per_user'"),
        ({"temperature": 0}, "temperature"),
        ({"prior": "per user"}, "prior='per user' must be a number between 0 and 1, or 'per_user'"),
        ({"prior": 1.5}, "prior=1.5 must be a number between 0 and 1"),
    ],
)
@pytest.mark.parametrize("name", ["pugmf", "pure"])
def test_what_does_not_go_together_is_refused(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        pr.make_model(name, **{**SOFTMAX, **settings})


def test_gmf_has_one_prior():
    with pytest.raises(ConfigError, match="prior"):
        pr.GMF(prior="per_user")


@pytest.mark.parametrize("engine", ["cpu", "torch"])
@pytest.mark.parametrize("name", ["pugmf", "pure"])
def test_it_learns(name, engine):
    if engine == "torch":
        need("torch")
    model = pr.make_model(name, **SOFTMAX, engine=engine).fit(checkerboard(), seed=0)
    found = model.recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9


def test_a_saved_model_folds_in_and_explains(tmp_path):
    data = checkerboard(30)
    pr.PUGMF(**SOFTMAX, temperature=0.5).fit(data).save(tmp_path / "model")
    model = pr.load_model(tmp_path / "model")
    assert model.config.prior == "per_user"
    history = data.positives.row(4)
    folded, trained = model.score_history(history), model.score([4])[0]
    assert np.corrcoef(folded, trained)[0, 1] > 0.9
    told = model.explain_for([int(data.items[i]) for i in history], 4)
    assert told.method == "exact"
    assert told.shares["share"].sum() > 0


def test_a_user_who_has_touched_everything_is_left_out():
    user, item = np.nonzero(np.add.outer(np.arange(12), np.arange(12)) % 2 == 0)
    log = pr.Interactions.from_columns(np.append(user, np.zeros(12, int)), np.append(item, np.arange(12)))
    model = pr.PUGMF(**SOFTMAX, epochs=3).fit(log)
    assert np.isfinite(model.score(np.arange(12))).all()
    positives = Csr.of([0, 0, 1, 2, 2], [0, 1, 0, 0, 1], (3, 2))
    kept = without_full_users(positives)
    assert kept.counts.tolist() == [0, 1, 0]
    assert kept.indices.tolist() == [0]
    nobody = Csr.of([0, 0], [0, 1], (1, 2))
    assert without_full_users(nobody) is nobody


def test_two_threads_learn_the_same_bits():
    from dataclasses import replace

    from purerec.engines.pure.cpu.engine import CpuEngine
    from purerec.engines.source import MemorySource

    positives = checkerboard(40).positives
    settings = replace(pr.PUGMF(**SOFTMAX)._settings(positives), batch_size=37, unlabeled_per_epoch=3000)
    found = []
    for threads in (1, 2):
        engine = CpuEngine(MemorySource(positives), settings, seed=0, threads=threads)
        for _ in range(3):
            engine.train_discriminator(learning_rate=0.01)
        found.append(engine.parameters())
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name])
