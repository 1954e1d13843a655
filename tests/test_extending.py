"""Does what docs/architecture.md says under 'How to add something'."""

import sys
import types

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard, need
from purerec.data.catalog import CATALOG
from purerec.data.datasets import Entry, File, FileLayout
from purerec.data.pairs import Csr
from purerec.errors import DataError
from purerec.evaluation import metrics
from purerec.models.registry import REGISTRY, load_model, make_model
from purerec.storage import Part


class Recent(pr.Recommender):
    """Items by their last row in the log."""

    name = "recent"

    def _fit(self, train, valid, seed, run):
        last = np.zeros(train.n_items, dtype=np.float32)
        np.maximum.at(last, train.item_idx, np.arange(len(train), dtype=np.float32))
        return last

    def _score(self, user_idx):
        return np.repeat(self.learned[None], len(user_idx), axis=0)

    def _layout(self):
        return {"last": Part(("items",))}

    def _state(self):
        return {"last": self.learned}

    def _from_state(self, state, known):
        return state["last"]


@pytest.fixture
def parts():
    return pr.split(checkerboard(), "ratio")


def test_a_model(parts, tmp_path, monkeypatch):
    module = types.ModuleType("my_models")
    module.Recent = Recent
    monkeypatch.setitem(sys.modules, "my_models", module)
    monkeypatch.setitem(REGISTRY, "recent", ("my_models", "Recent"))
    model = make_model("recent").fit(parts.full_train, seed=0)
    again = load_model(model.save(tmp_path / "m"))
    assert again.recommend(k=3).equals(model.recommend(k=3))
    assert pr.evaluate(again, parts).metrics["P@5"] >= 0
    again.update(parts.test)
    assert pr.compare(checkerboard(), ["recent", "itempop"], seeds=1, split=parts).results.keys() == {
        "recent",
        "itempop",
    }
    with pytest.raises(pr.PurerecError, match="recent cannot recommend for people who were not in training"):
        model.recommend_for(history=[model.items[0]])


class Duck:
    """Not a Recommender at all."""

    name = "duck"

    def __init__(self, n_items, fitted_on=None):
        self.n_items = n_items
        if fitted_on is not None:
            self.users, self.items, self.seen = fitted_on.users, fitted_on.items, fitted_on.positives

    def score(self, user_idx):
        return np.random.default_rng(0).random((len(user_idx), self.n_items), dtype=np.float32)

    def factors(self):
        return None


def test_a_model_without_any_of_this(parts):
    assert pr.evaluate(Duck(parts.train.n_items), parts).model == "duck"
    fair = Duck(parts.train.n_items, parts.full_train)
    assert 0 <= pr.evaluate(fair, parts).metrics["MRR"] <= 1
    with pytest.raises(DataError, match="would be inflated"):
        pr.evaluate(Duck(parts.train.n_items, parts.test), parts)


def test_a_metric(parts, monkeypatch):
    def first(ranks, indptr, k):
        return (np.minimum.reduceat(ranks, indptr[:-1]) == k).astype(np.float64)

    monkeypatch.setitem(metrics._OF_RANKS_AT_K, "First", first)
    model = pr.ItemPop().fit(parts.full_train)
    found = pr.evaluate(model, parts, metrics=("First@1", "HitRate@1")).metrics
    assert found["First@1"] == found["HitRate@1"]


def test_a_scorer(parts):
    need("torch")
    import torch

    class Distance(torch.nn.Module):
        def forward(self, e_u, e_i):
            return -(e_u - e_i).square().sum(1)

    model = pr.PURE(scorer_module=Distance(), epochs=2, pretrain_epochs=1, dim=4).fit(parts.full_train)
    assert np.isfinite(model.score([0, 1])).all()


def test_a_data_set(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.tsv").write_text("1\t10\t5\n2\t20\t3\n")
    layout = FileLayout(File("mine.tsv", None, 1 << 20))
    monkeypatch.setitem(CATALOG, "mine", Entry("mine", "Mine", "free", "https://example.org", layouts=(layout,)))
    monkeypatch.setenv("PUREREC_DATA", str(tmp_path))
    data = pr.load("mine")
    assert (data.name, len(data), data.n_positives) == ("mine", 2, 1)


def test_an_engine(parts, monkeypatch):
    from purerec.engines.pure.cpu.engine import CpuEngine
    from purerec.engines.pure.registry import ENGINES, EngineEntry

    class Watched(CpuEngine):
        def __init__(self, source, settings, **more):
            shapes.append(source.shape)
            super().__init__(source, settings, **more)

    shapes, module = [], types.ModuleType("my_engines")
    module.Watched = Watched
    monkeypatch.setitem(sys.modules, "my_engines", module)
    expected = pr.GMF(epochs=1).fit(parts.train).score([0])
    monkeypatch.setitem(ENGINES, "cpu", EngineEntry("my_engines", "Watched", ENGINES["cpu"].scorers))
    np.testing.assert_array_equal(pr.GMF(epochs=1).fit(parts.train).score([0]), expected)
    assert shapes == [parts.train.shape]


def test_a_data_source(parts):
    """Positives that are read when they are asked for, and a block of the items of one part of the users."""
    from purerec.engines.pure.cpu.engine import CpuEngine
    from purerec.engines.pure.spec import GameSettings
    from purerec.engines.source import MemorySource

    class Late:
        def __init__(self, log):
            self.log, self.shape = log, log.shape

        def positives(self):
            return Csr.of(self.log.user_idx, self.log.item_idx, self.shape)

        def part(self, *, user_idx=None, items=None):
            return MemorySource(self.positives()).part(user_idx=user_idx, items=items)

    settings = GameSettings(dim=4, scorer="fm", risk="pn", prior=0.1, unlabeled_per_epoch=len(parts.train))
    late, early = Late(parts.train), MemorySource(parts.train.positives)
    some = {"user_idx": np.arange(3), "items": range(2, 8)}
    for one, other in ((late, early), (late.part(**some), early.part(**some))):
        engines = [CpuEngine(source, settings, seed=0) for source in (one, other)]
        losses = [engine.train_discriminator(learning_rate=0.01, use_fakes=False).loss for engine in engines]
        assert losses[0] == losses[1]
        assert engines[0].parameters()["user"].shape == (one.shape[0], 4)
