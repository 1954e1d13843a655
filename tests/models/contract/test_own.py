"""Custom models: what a class must have, what is stored, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard
from own_code import own_code
from purerec.errors import ConfigError, ScoreError, StoreError
from purerec.models.contract.own import as_model
from purerec.models.contract.search_space import Choices, Floats, Ints
from purerec.models.contract.updating import unite
from purerec.models.registry import model_class, model_name

__all__ = ["own_code"]
pytestmark = pytest.mark.usefixtures("own_code")


class Popular:
    """Popular items."""

    search_space = {"power": (0.5, 2.0), "rounds": (1, 9), "kind": ["a", "b"]}  # noqa: RUF012

    def __init__(self, power: float = 1.0, rounds: int = 1, kind="a"):  # type: ignore[no-untyped-def]
        self.power = power

    def fit(self, train: pr.Interactions, seed: int) -> None:
        self.seed_ = seed
        self.counts_ = train.positives.item_counts**self.power

    def score(self, user_idx: Any) -> Any:
        return np.repeat(self.counts_[None], len(user_idx), axis=0)

    def score_history(self, item_idx: Any) -> Any:
        return self.counts_


class Plain(Popular):
    """Cannot recommend for strangers, and takes no seed."""

    score_history = None  # type: ignore[assignment]

    def fit(self, train: pr.Interactions) -> None:  # type: ignore[override]
        super().fit(train, 0)


def test_it_is_a_model_like_any_other(tmp_path: Path) -> None:
    assert pr.register(Popular) is Popular
    parts = pr.split(checkerboard(), "ratio")
    model = pr.make_model("popular", power="2").fit(parts.full_train, seed=3)
    assert repr(model) == "Popular(power=2.0)"
    assert model.learned.seed_ == 3
    usual = pr.ItemPop().fit(parts.full_train)
    assert pr.evaluate(model, parts).metrics == pr.evaluate(usual, parts).metrics
    stranger = model.recommend_for([model.items[0]], k=4)
    assert stranger["item"].to_list() == usual.recommend_for([model.items[0]], k=4)["item"].to_list()
    again = pr.load_model(model.save(tmp_path / "m"))
    assert type(again.learned.seed_) is int
    assert again.recommend(k=3).equals(model.recommend(k=3))
    again.update(parts.test)
    assert again.fitted_on.updated is not None
    assert pr.compare(checkerboard(), [pr.ItemPop, Popular], seeds=1, split=parts).results.keys() == {
        "itempop",
        "popular",
    }


def test_settings_and_their_space_are_those_of_the_class() -> None:
    config = model_class(model_name(Popular)).config_class
    assert {n: f.default for n, f in config.model_fields.items()} == {"power": 1.0, "rounds": 1, "kind": "a"}
    assert config.search_space == {"power": Floats(0.5, 2.0), "rounds": Ints(1, 9), "kind": Choices(("a", "b"))}
    with pytest.raises(ConfigError, match="did you mean power"):
        pr.make_model("popular", powr=1)
    with pytest.raises(ConfigError, match="valid integer"):
        pr.make_model("popular", rounds="many")


def test_what_it_cannot_do_is_said() -> None:
    pr.register(Plain)
    model = pr.make_model("plain").fit(checkerboard())
    with pytest.raises(ConfigError, match="plain cannot recommend for people who were not in training"):
        model.recommend_for([model.items[0]])


class NoScore:
    def fit(self, train: Any) -> None: ...


class NeedsMore(Popular):
    def __init__(self, width: int) -> None: ...


class OddName(Popular):
    name = "Odd name"


class OddSpace(Popular):
    search_space = {"depth": (1, 2)}  # noqa: RUF012


class Taken(Popular):
    name = "pure"


class Half(pr.Recommender):
    name = "half"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (NoScore, r"NoScore cannot be a model: it has no method score\(user_idx\)"),
        (Popular(), "a model is a class, and this is an object of Popular"),
        (len, "a model is a class, and this is a builtin_function_or_method"),
        (NeedsMore, "width has no default"),
        (OddName, "needs a name of small letters"),
        (OddSpace, "'depth', which is not a setting"),
        (Taken, "is taken: it is one of purerec's models"),
        (Half, "Half does not define _fit, _from_state, _layout"),
    ],
)
def test_what_cannot_be_a_model_is_refused_with_a_sentence(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pr.register(given)


def test_a_class_of_the_same_name_is_another_only_if_it_comes_from_elsewhere() -> None:
    pr.register(Popular)
    pr.register(type("Popular", (Popular,), {"__module__": __name__}))  # a notebook cell that is run again
    with pytest.raises(ConfigError, match=r"is taken: it is that of .*test_own:Popular"):
        pr.register(type("Popular", (Popular,), {"__module__": "elsewhere"}))


class WrongShape(Popular):
    def score(self, user_idx: Any) -> Any:
        return self.counts_


class Words(Popular):
    def score(self, user_idx: Any) -> Any:
        return np.full((len(user_idx), len(self.counts_)), "much")


@pytest.mark.parametrize(
    ("kind", "message"),
    [(WrongShape, r"of the shape \(20,\).*of the shape \(20, 20\) is needed"), (Words, "array of <U4")],
)
def test_scores_are_checked(kind: type, message: str) -> None:
    pr.register(kind)
    model = pr.make_model(kind.__name__.lower()).fit(checkerboard())
    with pytest.raises(ScoreError, match=message):
        model.recommend(k=2)


class Forgets(Popular):
    def fit(self, train: Any, seed: int) -> None:
        super().fit(train, seed)
        self.more = 1.0

    def score(self, user_idx: Any) -> Any:
        return super().score(user_idx) * self.more


class Changes(Forgets):
    more = 2.0


class Stateless(Popular):
    def fit(self, train: Any, seed: int) -> None:
        self.shape = train.shape

    def score(self, user_idx: Any) -> Any:
        return np.zeros((len(user_idx), self.shape[1]))


class Keeps(Popular):
    def fit(self, train: Any, seed: int) -> None:
        super().fit(train, seed)
        self.log_ = train


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Forgets, "would not work after loading .*has no attribute 'more'.*end in '_'"),
        (Changes, "would give other scores after loading"),
        (Stateless, "has learned nothing that can be stored"),
        (Keeps, "log_ is a Interactions"),
    ],
)
def test_a_folder_that_could_not_be_used_is_not_written(kind: type, message: str, tmp_path: Path) -> None:
    pr.register(kind)
    model = pr.make_model(kind.__name__.lower()).fit(checkerboard())
    with pytest.raises(StoreError, match=message):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("kind", [Forgets, Changes, Stateless, Keeps])
def test_an_update_keeps_what_cannot_be_stored(kind: type) -> None:
    pr.register(kind)
    board, more = checkerboard(), pr.Interactions.from_columns([3, 99], [55, 55])
    model = pr.make_model(kind.__name__.lower()).fit(board)
    everything = unite(model, more).united
    model.update(more)
    fresh = pr.make_model(kind.__name__.lower()).fit(everything)
    assert vars(model.learned).keys() == vars(fresh.learned).keys()
    assert model.recommend(k=3).equals(fresh.recommend(k=3))


class Fails(Stateless):
    def fit(self, train: Any, seed: int) -> None:
        super().fit(train, seed)
        if seed == 1:
            raise RuntimeError("no luck")


@pytest.mark.parametrize("change", ["fit", "update"])
def test_a_change_that_fails_changes_nothing(change: str) -> None:
    pr.register(Fails)
    model = pr.make_model("fails").fit(checkerboard())
    own, listed = model.learned, model.recommend(k=3)
    with pytest.raises(RuntimeError, match="no luck"):
        getattr(model, change)(pr.Interactions.from_columns([3, 99], [55, 55]), seed=1)
    assert model.learned is own
    assert len(model.users) == 20
    assert model.recommend(k=3).equals(listed)


def test_a_folder_does_not_choose_what_is_imported(own_code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(__file__).read_text().partition("class Plain")[0].partition("class Popular")[2]
    (own_code / "mine.py").write_text(
        "import numpy as np\nimport purerec as pr\nfrom typing import Any\nclass Popular" + source
    )
    (own_code / "evil.py").write_text("raise SystemExit('ran')\n")
    folder = pr.make_model("mine:Popular").fit(checkerboard()).save("m")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["model"], manifest["class"]) == ("popular", "mine:Popular")
    monkeypatch.setattr("purerec.models.registry._OWN", {})
    with pytest.raises(StoreError, match=r"`from mine import Popular` and `purerec\.register\(Popular\)` first"):
        pr.load_model(folder)
    monkeypatch.setenv("PUREREC_IMPORT", "mine:Popular")
    assert pr.load_model(folder).name == "popular"
    with pytest.raises(ConfigError, match="unknown metric"):
        pr.make_model("bpr", metric="evil:metric")


def test_names_that_lead_nowhere() -> None:
    for name, message in (
        ("nowhere:Model", "there is no module 'nowhere' in the current folder"),
        ("json:Model", "json has no 'Model'; choose from"),
        ("model.py:Model", "is a file; write the name of the module: model:Model"),
        ("a b:c", "does not name an object; write module:name"),
    ):
        with pytest.raises(ConfigError, match=message):
            pr.make_model(name)


def test_a_module_that_fails_is_named(own_code: Path) -> None:
    (own_code / "broken.py").write_text("1 / 0")
    (own_code / "lacking.py").write_text("import a_library_that_is_not_there")
    with pytest.raises(ConfigError, match="broken cannot be imported: ZeroDivisionError: division by zero"):
        pr.make_model("broken:Model")
    with pytest.raises(ConfigError, match="lacking cannot be imported: it needs a_library_that_is_not_there"):
        pr.make_model("lacking:Model")


def test_installed_packages_offer_models(own_code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from purerec.data.plugins import named

    points = {n: EntryPoint(n, f"{__name__}:Popular", "purerec.models") for n in ("popular", "other")}
    monkeypatch.setattr(named, "_installed", lambda group: points if group == "purerec.models" else {})
    assert pr.make_model("popular").name == "popular"
    with pytest.raises(ConfigError, match="offers the model 'popular' as 'other'"):
        pr.make_model("other")
    with pytest.raises(
        ConfigError, match=r"unknown model 'another'; did you mean other\? choose from itempop, .*popular, other"
    ):
        pr.make_model("another")


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_scores_are_ranked_in_their_own_precision(kind: type) -> None:
    class Latest:
        def fit(self, train: Any) -> None:
            self.time_ = (1_700_000_000 + np.arange(train.n_items)).astype(kind)

        def score(self, user_idx: Any) -> Any:
            return np.tile(self.time_, (len(user_idx), 1))

        def score_history(self, item_idx: Any) -> Any:
            return self.time_

    log = checkerboard()
    model = as_model(Latest)().fit(log)
    newest = log.items.ids.to_list()[::-1]
    for found in (model.recommend(0, k=8, exclude_seen=False), model.recommend_for([0], k=8, exclude_seen=False)):
        assert found["item"].to_list() == newest[:8]
        assert found["score"].to_list() == [np.float32(1_700_000_000 + n) for n in range(19, 11, -1)]
