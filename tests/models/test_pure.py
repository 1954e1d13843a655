"""PURE, PU-GMF and GMF: what they share, what sets them apart, and the paper's settings."""

from copy import deepcopy

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard, need
from purerec.data.pairs import Csr
from purerec.errors import ConfigError, DataError, DivergedError, StoreError
from purerec.models.contract.data_defaults import observed_share
from purerec.paper.printed import paper
from purerec.training.run import Run

QUICK = {"epochs": 12, "pretrain_epochs": 6, "dim": 4}


def log(seed=0, n=1500):
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 60, n)
    return pr.Interactions.from_columns(user, 2 * rng.integers(0, 25, n) + user % 2)


def scores(model):
    return model.score(np.arange(len(model.users)))


@pytest.mark.parametrize("data", ["ml-100k", "ml-1m", "yelp"])
def test_paper_presets_are_the_table_that_reports_show(data):
    """test_algorithm checks every field."""
    config = pr.PURE.paper(data).config
    printed = paper()["parameters"][data]
    for name in ("dim", "batch_size", "learning_rate", "prior", "noise"):
        assert getattr(config, name) == printed[name]
    assert config.epochs - config.pretrain_epochs == printed["epochs"]
    with pytest.raises(ConfigError, match="ml-100k, ml-1m, yelp"):
        pr.PURE.paper("netflix")


def test_pure_without_fakes_is_pugmf():
    data = log()
    plain = pr.PUGMF(epochs=8, dim=4, unlabeled_ratio=16).fit(data, seed=3)
    before_the_game = pr.PURE(epochs=8, pretrain_epochs=8, dim=4, users="free").fit(data, seed=3)
    np.testing.assert_array_equal(scores(plain), scores(before_the_game))


def test_a_given_pugmf_takes_the_place_of_pre_training():
    data = log()
    start = pr.PUGMF(epochs=6, dim=4).fit(data, seed=0)
    model = pr.PURE(**QUICK).fit(data, seed=0, pretrained=start)
    assert len(model.history.curve("D(fake)")) == QUICK["epochs"]
    with pytest.raises(ConfigError, match="other data"):
        pr.PURE(**QUICK).fit(log(seed=9, n=300), pretrained=start)


def test_a_fit_resumes_only_from_the_start_it_had(tmp_path):
    data = log()
    one, other = (pr.PUGMF(epochs=2, dim=4).fit(data, seed=seed) for seed in (0, 1))
    model = pr.PURE(**QUICK)
    whole = pr.PURE(**QUICK).fit(data, pretrained=one)
    model.fit(data, pretrained=one, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=1, stop_after=2))
    again = Run(checkpoint=tmp_path / "c", resume=True)
    for start in (other, None):
        with pytest.raises(StoreError, match="continues from another model, or none; resume with the same"):
            pr.PURE(**QUICK).fit(data, pretrained=start, run=again)
    np.testing.assert_array_equal(scores(pr.PURE(**QUICK).fit(data, pretrained=one, run=again)), scores(whole))


def test_an_update_resumes_only_from_the_model_it_began_with(tmp_path):
    data, more = log(), pr.Interactions.from_columns([0, 1], [2, 3])
    one, other = (pr.PUGMF(epochs=30, dim=4).fit(data, seed=seed) for seed in (0, 1))
    kept = deepcopy(one)
    one.update(more, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=1, stop_after=2))
    again = Run(checkpoint=tmp_path / "c", resume=True)
    with pytest.raises(StoreError, match="continues from another model, or none; resume with the same"):
        other.update(more, run=again)
    whole = deepcopy(kept).update(more)
    np.testing.assert_array_equal(scores(kept.update(more, run=again)), scores(whole))


def test_what_stopped_the_pre_training_is_not_forgotten():
    split = pr.split(log(), "ratio", valid=0.1)
    early = {"patience": 1, "validate_every": 1}
    start = pr.PUGMF(epochs=3, dim=4, **early).fit(split.train, valid=split.test)
    plain = pr.PURE(**QUICK).fit(split.train, pretrained=start)
    stopped = pr.PURE(**QUICK, **early).fit(split.train, valid=split.valid, pretrained=start)
    for model in (plain, stopped):
        with pytest.raises(DataError, match="test positives decided when to stop"):
            pr.evaluate(model, split)
    assert len(stopped.stopped_by) == split.test.n_positives + split.valid.n_positives


def test_pre_training_has_not_seen_more_than_the_train_part():
    """What it has seen of the test part would affect the scores, and nothing would reveal it."""
    data = log()
    train = data.subset(np.arange(len(data)) % 5 > 0, name=data.name)
    start = pr.PUGMF(epochs=2, dim=4).fit(data)
    with pytest.raises(ConfigError, match="positives that are not in this train part"):
        pr.PURE(**QUICK).fit(train, pretrained=start)
    pr.PURE(**QUICK).fit(data, pretrained=pr.PUGMF(epochs=2, dim=4).fit(train))  # having seen less does no harm


def test_history_has_every_curve():
    data = log()
    parts = pr.split(data, "ratio")
    model = pr.PURE(**QUICK, validate_every=3).fit(parts.train, valid=parts.valid)
    assert {"loss", "D(positive)", "D(unlabeled)", "user_norm", "item_norm", "learning_rate"} <= set(
        model.history.records[0].values
    )
    assert len(model.history.curve("D(fake)")) == 6
    assert len(model.history.curve("fake_norm")) == 6
    assert [epoch for epoch, _ in model.history.curve("P@5")] == [2, 5, 8, 11]
    assert model.history.records[0].phase == "pre-training"


def test_bias_starts_at_the_prior():
    model = pr.PUGMF(epochs=0, prior=1e-3).fit(log())
    assert np.mean(1 / (1 + np.exp(-scores(model)))) == pytest.approx(1e-3, rel=0.05)


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
@pytest.mark.parametrize("name", ["gmf", "pugmf", "pure"])
def test_every_scorer_learns(scorer, name):
    model = pr.make_model(name, scorer=scorer, dim=4).fit(checkerboard(), seed=0)
    found = model.recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9


def test_mlp_scorer_and_torch_engine():
    need("torch")
    model = pr.PUGMF(scorer="mlp", dim=4, epochs=3).fit(log(), seed=0)
    assert model.factors() is None
    assert np.isfinite(scores(model)).all()
    with pytest.raises(ConfigError, match="network as scorer"):
        model.recommend_for([1, 3])


def test_mlp_scores_are_those_of_the_network(tmp_path):
    need("torch")
    import torch

    from purerec.engines.pure.torch.modules import MLP

    model = pr.PUGMF(scorer="mlp", dim=4, epochs=2).fit(log(), seed=0)
    net = MLP(4, 4)
    params = model._params
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            source = params[name if name in params else f"mlp.{name.removeprefix('layers.')}"]
            tensor.copy_(torch.from_numpy(source))
        users = torch.from_numpy(params["user"][[5]]).expand(len(params["item"]), -1)
        expected = net(users, torch.from_numpy(params["item"])).numpy() + params["bias"]
    np.testing.assert_allclose(model.score([5])[0], expected.ravel(), rtol=1e-4, atol=1e-5)
    again = pr.load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(again.score([5]), model.score([5]))


def test_a_scorer_of_ones_own(tmp_path):
    need("torch")
    import torch

    class Cosine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(3.0))
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, e_u, e_i):
            return self.scale * torch.cosine_similarity(self.norm(e_u), e_i)

    data = log()
    model = pr.PURE(**QUICK, scorer_module=Cosine()).fit(data, seed=0)
    found = scores(model)
    assert np.isfinite(found).all()
    assert model.factors() is None
    again = pr.load_model(model.save(tmp_path / "m"))
    with pytest.raises(ConfigError, match="scorer_module"):
        again.score([0])
    again.scorer_module = Cosine()
    np.testing.assert_array_equal(scores(again), found)
    with pytest.raises(ConfigError, match="engine='torch'"):
        pr.PURE(engine="cpu", scorer_module=Cosine())


@pytest.mark.parametrize("name", ["gmf", "pugmf", "pure"])
def test_both_engines_learn_the_same_thing(name):
    need("torch")
    data = log()
    settings = QUICK if name == "pure" else {"epochs": 12, "dim": 4}
    fast = pr.make_model(name, engine="cpu", **settings).fit(data, seed=0)
    slow = pr.make_model(name, engine="torch", **settings).fit(data, seed=0)
    a, b = (scores(m) - scores(m).mean(axis=1, keepdims=True) for m in (fast, slow))
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.8


def test_divergence_is_told(monkeypatch):
    monkeypatch.setattr("purerec.training.loop._EXPLODED", 0.5)
    with pytest.raises(DivergedError, match=r"_norm is .*; lower learning_rate \(now 1\)"):
        pr.PUGMF(learning_rate=1, regularization=0, epochs=20, dim=2).fit(log())


def test_non_negative_risk_finds_the_missing_pairs_where_the_prior_is_large():
    data = checkerboard()
    best = pr.PUGMF(non_negative=True, prior=0.3, dim=4).fit(data).recommend(k=1)
    found = sum(user == item for user, item in best.select("user", "item").rows())
    assert found >= 0.9 * data.n_users


def test_gmf_draws_exactly_its_negatives_and_takes_any_prior():
    data = checkerboard()
    settings = pr.GMF(prior=0.05, unlabeled_ratio=8)._settings(data.positives)
    assert settings.unlabeled_per_epoch == 8 * data.n_positives
    pr.GMF(prior=0.5, unlabeled_ratio=1, epochs=2).fit(data)


def test_gmf_weighs_positives_by_their_share_of_all_pairs_unless_told():
    """Five positives; of four people three have any, and there are ten items."""
    positives = Csr.of([0, 0, 1, 3, 3], [0, 1, 5, 7, 9], (4, 10))
    assert pr.GMF()._settings(positives).prior == pytest.approx(5 / 30)
    assert pr.GMF(prior=0.7)._settings(positives).prior == 0.7
    assert pr.PUGMF()._settings(positives).prior == pytest.approx(5 / 30 / 0.9)
    assert observed_share(Csr.of([0, 0], [0, 1], (1, 2))) < 0.5  # all pairs observed


def test_stopping_early_on_validation():
    parts = pr.split(log(), "ratio")
    model = pr.PUGMF(epochs=60, patience=2, validate_every=1, dim=4)
    model.fit(parts.train, valid=parts.valid, run=Run())
    assert model.history.best_epoch is not None
    assert pr.evaluate(model, parts, on="valid").metrics["P@5"] == pytest.approx(model.history.best_metric)


def test_folding_in_a_known_user_agrees_with_training():
    data = checkerboard(30)
    model = pr.PUGMF(dim=4).fit(data)
    folded = model.score_history(data.positives.row(4))
    trained = model.score([4])[0]
    assert np.corrcoef(folded, trained)[0, 1] > 0.9


def test_a_fit_resumes_only_with_the_validation_part_it_had(tmp_path):
    """Otherwise a part that decided would be forgotten, and could be tested on."""
    split = pr.split(log(), "ratio", valid=0.1)
    settings = {"epochs": 6, "patience": 5, "validate_every": 1, "dim": 4}
    run = Run(checkpoint=tmp_path / "c", checkpoint_epochs=1, stop_after=3)
    pr.PUGMF(**settings).fit(split.train, valid=split.valid, run=run)
    again = Run(checkpoint=tmp_path / "c", resume=True)
    for valid in (None, split.test):
        with pytest.raises(StoreError, match="of a fit with another validation part, or none; resume with"):
            pr.PUGMF(**settings).fit(split.train, valid=valid, run=again)
    assert pr.PUGMF(**settings).fit(split.train, valid=split.valid, run=again).stopped_by is split.valid.positives


def test_pre_training_gives_the_width_and_is_a_pugmf():
    data = log()
    start = pr.PUGMF(epochs=2, dim=6).fit(data)
    model = pr.PURE(epochs=2).fit(data, pretrained=start)
    assert model.learned.params["user"].shape[1] == model.fitted_on.resolved["dim"] == 6
    with pytest.raises(ConfigError, match="the pre-trained model has dim=6, this one 4; set dim=6"):
        pr.PURE(epochs=2, dim=4).fit(data, pretrained=start)
    for other in ("pugmf", pr.PUGMF, pr.BPR(epochs=1).fit(data)):
        with pytest.raises(ConfigError, match="pretrained takes a fitted PUGMF, not "):
            pr.PURE(epochs=2).fit(data, pretrained=other)


def test_other_numbers_of_epochs_in_the_papers_form_are_half_pre_training():
    assert pr.PURE.paper("yelp", epochs=10).config.pretrain_epochs == 5
    assert pr.PURE.paper("yelp", epochs="10").config.pretrain_epochs == 5
    assert pr.PURE.paper("yelp", epochs=10, pretrain_epochs=2).config.pretrain_epochs == 2
    for wrong in ("x", None, 2.5):
        with pytest.raises(ConfigError, match="epochs="):
            pr.PURE.paper("yelp", epochs=wrong)
