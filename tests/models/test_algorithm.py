"""Algorithm 1, at the level of the model: who is trained how often, on how many pairs, in which order."""

import math
from dataclasses import asdict

import numpy as np
import pytest

import purerec as pr
from conftest import ROOT, need
from purerec.data.pairs import Csr
from purerec.engines.pure.spec import EpochStats
from purerec.models.contract.data_defaults import chance_level, shrinking
from purerec.models.families.game import DiscriminatorGame
from purerec.paper.theory import unlabeled_needed

N_USERS, N_ITEMS, PER_USER = 40, 30, 12
N_P = N_USERS * PER_USER


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.choice(N_ITEMS, PER_USER, replace=False) for _ in range(N_USERS)])
    log = pr.Interactions.from_columns(np.repeat(np.arange(N_USERS), PER_USER), items)
    assert (log.n_positives, log.n_users, log.n_items) == (N_P, N_USERS, N_ITEMS)
    return log


# ---------------------------------------------------------------------- the settings

PRINTED = {  # the appendix, 'Reproducible parameter setting'
    "ml-100k": {"dim": 5, "batch_size": 128, "learning_rate": 1e-3, "epochs": 100, "prior": 1e-4, "noise": 0.01},
    "ml-1m": {"dim": 8, "batch_size": 128, "learning_rate": 1e-3, "epochs": 100, "prior": 1e-5, "noise": 0.01},
    "yelp": {"dim": 16, "batch_size": 512, "learning_rate": 1e-3, "epochs": 200, "prior": 1e-6, "noise": 0.01},
}
FORM = {
    "scorer": "gmf",  # Section 4.1: the design of GMF
    "unlabeled_ratio": 1.0,  # Section 4.5: C = 1
    "unlabeled": "global",  # Algorithm 1, line 7: (u, i) of Omega^-
    "negatives": "uniform",  # Section 4.2: UNS
    "candidates": 10,  # not used with uniform negatives
    "schedule": "constant",
    "regularization": 0.0,  # Eq. (final_objective) has none
    "stratified": False,  # Algorithm 1, line 7: only (u, i) of Omega^- are drawn
    "non_negative": False,  # Section 3.1: the max operator is left out
    "users": "free",  # an embedding of their own
    "history_weight": None,  # not used with free embeddings, like the next three
    "history_regularization": None,
    "temperature": 1.0,
    "item_power": 0.2,
    "neighbors": None,
    "generators": "both",  # G_u and G_i
    "fake_weight": 1.0,  # Eq. (D_loss2): no weight
    "fake_ratio": 1.0,  # Section 3.2: a ratio of 1
    "generator_epochs": 10.0,  # the appendix: local epochs of 1 and 10
    "generator_learning_rate": 1e-3,  # one learning rate is printed
    "conditional": False,  # Eq. (generator): noise is the only input
    "output": "relu",
    "constraint": "none",
    "generator_loss": "nonsaturating",  # Algorithm 1, line 13: label 1
    # not in the paper
    "hidden": 32,
    "init_std": 0.1,
    "epsilon": 1e-8,
    "engine": "auto",
    # settings of the run, not of the model
    "metric": "P@5",
    "validate_every": 5,
    "patience": None,
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_paper_preset_field_by_field(name):
    printed = PRINTED[name]
    rounds = printed["epochs"]
    expected = {**FORM, **printed, "epochs": 2 * rounds, "pretrain_epochs": rounds}
    assert pr.PURE.paper(name).config.model_dump() == expected


@pytest.mark.parametrize("name", PRINTED)
def test_what_the_paper_preset_asks_of_an_engine(name, data):
    printed = PRINTED[name]
    prior = printed["prior"]
    assert asdict(pr.PURE.paper(name)._settings(data.positives)) == {
        "dim": printed["dim"],
        "item_dim": None,
        "scorer": "gmf",
        "risk": "pu",
        "prior": prior,
        "observed": 0.0,
        "unlabeled": "global",
        "unlabeled_per_epoch": math.ceil(N_P / (1 - 2 * prior) ** 2),  # Algorithm 1, line 2
        "negatives": "uniform",
        "candidates": 10,
        "batch_size": printed["batch_size"],
        "regularization": 0.0,
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
        "init_std": 0.1,
        "train_bias": True,
        "temperature": 1.0,
        "generators": "both",
        "fake_weight": 1.0,
        "fake_ratio": 1.0,
        "hidden": 32,
        "noise": 0.01,
        "conditional": False,
        "output": "relu",
        "constraint": "none",
        "generator_loss": "nonsaturating",
    }


DEFAULTS = {
    "dim": 16,  # for 40 users
    "item_dim": None,
    "scorer": "fm",
    "risk": "pu",
    "prior": PER_USER / N_ITEMS / 0.9,
    "observed": PER_USER / N_ITEMS,
    "unlabeled": "per_user",
    "unlabeled_per_epoch": 8 * N_P,
    "negatives": "uniform",
    "candidates": 10,
    "batch_size": N_P // 8,
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "init_std": 0.1,
    "train_bias": True,
    "temperature": 1.0,
}
OF_GENERATORS = {
    "generators": "user",
    "fake_weight": 0.001,
    "fake_ratio": 0.05,
    "hidden": 32,
    "noise": 0.1,
    "conditional": True,
    "output": "linear",
    "constraint": "norm",
    "generator_loss": "nonsaturating",
}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("pure", OF_GENERATORS | {"unlabeled_per_epoch": 16 * N_P}),
        ("pugmf", {}),
        ("gmf", {"risk": "pn", "prior": PER_USER / N_ITEMS, "observed": 0.0}),
    ],
)
def test_what_the_defaults_ask_of_an_engine(name, changes, data):
    found = asdict(pr.make_model(name)._settings(data.positives))
    without_generators = {} if name == "pure" else {key: found[key] for key in OF_GENERATORS}
    assert found.get("generators") == changes.get("generators", "none")
    usual = {**DEFAULTS, "regularization": 0.95 * chance_level(data.positives) ** 1.2}
    assert found == pytest.approx({**usual, **without_generators, **changes})


@pytest.mark.parametrize("name", ["gmf", "pugmf", "pure"])
def test_every_setting_reaches_the_engine(name, data):
    changes = {
        "dim": 7,
        "scorer": "mf",
        "prior": 0.02,
        "unlabeled": "popularity",
        "negatives": "dns",
        "candidates": 3,
        "batch_size": 9,
        "regularization": 0.7,
        "epsilon": 0.5,
        "init_std": 0.9,
    }
    of_generators = {
        "generators": "item",
        "fake_weight": 0.4,
        "fake_ratio": 0.6,
        "hidden": 6,
        "noise": 0.8,
        "conditional": False,
        "output": "relu",
        "constraint": "norm",
        "generator_loss": "saturating",
    }
    changes |= of_generators if name == "pure" else {}
    found = asdict(pr.make_model(name, **changes)._settings(data.positives))
    assert {key: found[key] for key in changes} == changes


@pytest.mark.parametrize(("n_users", "dim", "linear"), [(1, 16, 16), (2000, 16, 16), (2001, 32, 16)])
def test_the_default_width_follows_the_number_of_users(n_users, dim, linear):
    positives = Csr.of(np.arange(n_users), np.zeros(n_users, int), (n_users, 3))
    for name in ("gmf", "pugmf", "pure"):
        assert pr.make_model(name)._settings(positives).dim == dim
    assert pr.PUGMF(stratified=False, prior=1e-4)._settings(positives).dim == linear


def test_without_the_stratum_as_many_pairs_are_drawn_as_the_bound_asks_for(data):
    settings = pr.PUGMF(stratified=False, prior=1e-4, unlabeled_ratio=4)._settings(data.positives)
    assert settings.unlabeled_per_epoch == math.ceil(4 * N_P / (1 - 3e-4) ** 2)
    assert settings.observed == 0


@pytest.mark.parametrize(("dim", "c"), [(5, 0.65), (16, 0.65 + 0.27 * (1 - math.exp(-11 / 16)))])
def test_without_the_stratum_the_default_l2_rises_with_the_width(dim, c, data):
    printed = pr.PUGMF(dim=dim, stratified=False, prior=1e-4)._settings(data.positives)
    assert printed.regularization == pytest.approx(c / math.sqrt(PER_USER))
    for name in ("gmf", "pugmf"):
        usual = pr.make_model(name, dim=dim)._settings(data.positives)
        assert usual.regularization == pytest.approx(0.95 * chance_level(data.positives) ** 1.2)
    assert shrinking(1, data.positives) == pytest.approx(1 / math.sqrt(PER_USER))


def test_theory_md_says_what_the_noise_is():
    text = " ".join((ROOT / "docs" / "theory.md").read_text().split())
    by_paper, by_default = pr.PURE.paper().config.noise, pr.PURE().config.noise
    assert f"**standard deviation**: {by_paper:g} in `PURE.paper`, and {by_default:g} by default" in text


def test_non_negative_is_the_nnpu_risk(data):
    assert pr.PUGMF(non_negative=True)._settings(data.positives).risk == "nnpu"


# ---------------------------------------------------------------------- the order


class Recorder:
    """Replaces an engine and records its calls."""

    def __init__(self):
        self.calls = []

    def train_discriminator(self, *, learning_rate, use_fakes=True):
        self.calls.append(("D", learning_rate, use_fakes))
        return EpochStats(0.1, 0.2, 0.3, 0.4, 0.5, 6)

    def train_generators(self, *, learning_rate, steps):
        self.calls.append(("G", learning_rate, steps))
        return EpochStats(0.7, math.nan, math.nan, 0.8, 0.9, 10)

    def norms(self):
        return {"user_norm": 1.0}

    def parameters(self):
        return {
            "user": np.ones((N_USERS, 2), np.float32),
            "item": np.ones((N_ITEMS, 2), np.float32),
            "bias": np.ones(1, np.float32),
        }


@pytest.fixture
def recorder(monkeypatch):
    made = Recorder()
    monkeypatch.setattr(DiscriminatorGame, "new_engine", lambda self, params, seed: made)
    return made


@pytest.mark.parametrize("name", PRINTED)
def test_the_paper_preset_plays_algorithm_1(name, data, recorder):
    """Pre-training, then rounds of one epoch of the discriminator with fakes and ten passes of the generators."""
    rounds, batch = PRINTED[name]["epochs"], PRINTED[name]["batch_size"]
    model = pr.PURE.paper(name).fit(data)
    a_round = [("D", 1e-3, True), ("G", 1e-3, round(10 * N_P / batch))]
    assert recorder.calls == [("D", 1e-3, False)] * rounds + a_round * rounds
    assert [r.phase for r in model.history.records] == ["pre-training"] * rounds + ["the game"] * rounds
    last = model.history.records[-1]
    told = ("loss", "D(positive)", "D(unlabeled)", "D(fake)", "fake_norm", "generator_loss")
    assert [last.values[name] for name in told] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.7]


@pytest.mark.parametrize("name", PRINTED)
def test_a_pass_over_as_many_pairs_as_positives_is_the_papers(name):
    """n_u of Algorithm 1 differs from n_p by less than one in two thousand at every prior that is printed."""
    prior = PRINTED[name]["prior"]
    assert unlabeled_needed(1_000_000, prior) <= 1_000_500


def test_the_default_plays_a_quarter_of_its_epochs_with_generators(data, recorder):
    pr.PURE(batch_size=16, history_weight=0.2).fit(data)
    rate = [1e-2 * 0.5 * (1 + math.cos(math.pi * number / 30)) for number in range(30)]
    expected = [("D", rate[number], False) for number in range(22)]
    for number in range(22, 30):
        expected += [("D", rate[number], True), ("G", 1e-2, round(0.1 * N_P / 16))]
    assert [(who, what) for who, _, what in recorder.calls] == [(who, what) for who, _, what in expected]
    np.testing.assert_allclose([call[1] for call in recorder.calls], [call[1] for call in expected])


@pytest.mark.parametrize(
    ("passes", "steps"), [(0, []), (0.001, [1]), (0.5, [15]), (1, [30]), (2.5, [75])], ids=lambda x: str(x)
)
def test_how_many_steps_the_generators_take(passes, steps, data, recorder):
    """None if set to 0, else at least one."""
    pr.PURE(epochs=1, pretrain_epochs=0, batch_size=16, generator_epochs=passes).fit(data)
    assert [call[2] for call in recorder.calls if call[0] == "G"] == steps


@pytest.mark.parametrize("name", ["gmf", "pugmf"])
def test_without_generators_there_are_only_epochs_of_the_discriminator(name, data, recorder):
    model = pr.make_model(name, epochs=10, schedule="steps", learning_rate=0.5).fit(data)
    rates = [0.5] * 7 + [0.1] * 2 + [0.02]
    assert [call[0] for call in recorder.calls] == ["D"] * 10
    assert not any(call[2] for call in recorder.calls)
    np.testing.assert_allclose([call[1] for call in recorder.calls], rates)
    np.testing.assert_allclose([r.values["learning_rate"] for r in model.history.records], rates)


def test_a_given_start_leaves_no_pre_training(data, recorder):
    start = pr.PUGMF(epochs=1, dim=2).fit(data)
    recorder.calls.clear()
    pr.PURE(epochs=3, pretrain_epochs=2, dim=2).fit(data, pretrained=start)
    assert [call[0] for call in recorder.calls] == ["D", "G"] * 3


# ---------------------------------------------------------------------- real engines


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_a_real_engine_does_what_it_is_told(engine, data, monkeypatch):
    """Counted by Adam itself, and by the pairs it was shown."""
    if engine == "torch":
        need("torch")
    made, shown = [], []
    real = DiscriminatorGame.new_engine

    def watched(self, params, seed):
        found = real(self, params, seed)
        made.append(found)
        for name in ("train_discriminator", "train_generators"):
            call = getattr(found, name)

            def listen(*, call=call, **how):
                stats = call(**how)
                shown.append(stats.samples)
                return stats

            setattr(found, name, listen)
        return found

    monkeypatch.setattr(DiscriminatorGame, "new_engine", watched)
    pr.PURE.paper("ml-100k", epochs=5, pretrain_epochs=3, batch_size=32, generator_epochs=2, engine=engine).fit(data)
    n_u = math.ceil(N_P / (1 - 2e-4) ** 2)
    batches = math.ceil(N_P / 32)
    generator_steps = 2 * N_P // 32
    # both generators make a fake for each unlabeled pair, and for each pair of their own steps
    game = [N_P + n_u + 2 * n_u, 2 * 32 * generator_steps]
    assert shown == [N_P + n_u] * 3 + game * 2
    state = made[0].state()
    of_d, of_g = {
        "cpu": ("counter/steps", "counter/generator_steps"),
        "torch": ("item/step", "user_gen.w2/step"),
    }[engine]
    assert int(state[of_d]) == 5 * batches
    assert int(state[of_g]) == 2 * generator_steps
