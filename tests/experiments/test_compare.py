"""pr.compare is the command as a function."""

import inspect
import json

import numpy as np
import pytest

import purerec as pr
from purerec.cli.commands import app
from purerec.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    rng = np.random.default_rng(0)
    user = rng.integers(0, 40, 700)
    item = 2 * rng.integers(0, 15, 700) + user % 2
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in zip(user, item, strict=True)))
    return path


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (
            {"models": ["itempop", "ials"], "settings": {"dim": 3}, "split": "ratio", "metric": "Recall@7"},
            ["--models", "itempop,ials", "--set", "dim=3", "--split", "ratio", "--metric", "Recall@7"],
        ),
        (
            {"models": "ease", "protocol": "sampled", "pool": 9, "settings_file": "found.toml"},
            ["--models", "ease", "--protocol", "sampled", "--pool", "9", "--settings", "found.toml"],
        ),
        (
            {"models": ["itempop", "ease"], "against": "ease"},
            ["--models", "itempop,ease", "--against", "ease"],
        ),
    ],
    ids=["settings", "file", "against"],
)
@pytest.mark.filterwarnings("ignore:found.toml does not say what it was tuned on")
def test_what_the_command_prints(clicks, arguments, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "found.toml").write_text("[models.ease]\nsettings = { regularization = 7 }\n")
    app(["compare", str(clicks), *options, "--seeds", "2", "--json", "command.json"], standalone_mode=False)
    command = json.loads((tmp_path / "command.json").read_text())
    found = json.loads(json.dumps(pr.compare(pr.read(clicks), seeds=2, **arguments).to_dict()))
    for told in (command, found):
        for runs in told["models"].values():
            for run in runs:
                for key in ("fit_seconds", "evaluate_seconds", "peak_rss_mb", "added_mb"):
                    del run[key]
    assert found == command
    assert found["models"].keys() == set([arguments["models"]] if options[1] == "ease" else arguments["models"])


def test_a_split_of_ones_own(clicks):
    data = pr.read(clicks)
    parts = pr.split(data, "leave_n_out", n=2, seed=4)
    found = pr.compare(data, ["itempop"], seeds=1, split=parts)
    assert isinstance(found, pr.Comparison)
    assert found.results["itempop"][0].split == parts.label
    again = pr.compare(parts, ["itempop"], seeds=1)
    assert again.results["itempop"][0].evaluation.metrics == found.results["itempop"][0].evaluation.metrics
    with pytest.raises(ConfigError, match="the data is a split already"):
        pr.compare(parts, ["itempop"], split="ratio")
    with pytest.raises(DataError, match=r"data must be from pr.read or pr.load, or a split of it, not PosixPath"):
        pr.compare(clicks, ["itempop"])
    assert found.mean("itempop", "P@5") == pr.evaluate(pr.ItemPop().fit(parts.full_train), parts).metrics["P@5"]


def test_mistakes_are_errors_before_anything_is_fitted(clicks):
    data = pr.read(clicks)
    for arguments, message in [
        ({"models": ["pur"]}, "unknown model 'pur'"),
        ({"models": ["ease"], "settings": {"dim": 3}}, "no setting 'dim'"),
        ({"models": ["ease", "itempop"], "settings": {"dim": 3}}, "none of ease, itempop has a setting 'dim'"),
        ({"models": ["ease"], "metric": "Q@5"}, "unknown metric"),
        ({"models": ["ease"], "against": "bpr"}, "'bpr' is not among the models"),
        ({"models": ["ease"], "tuned": True}, "no tuned settings"),
    ]:
        with pytest.raises(ConfigError, match=message):
            pr.compare(data, **arguments)


def test_tune_has_the_arguments_of_the_command_and_finds_the_same(clicks, tmp_path):
    pytest.importorskip("optuna")
    found = pr.tune(pr.read(clicks), "ease", trials=3, metric="NDCG@10", split="ratio")
    assert isinstance(found, pr.Tuned)
    options = ["--trials", "3", "--metric", "NDCG@10", "--split", "ratio", "--study", str(tmp_path / "s")]
    app(["tune", str(clicks), "--model", "ease", *options, "--json", str(tmp_path / "j")], standalone_mode=False)
    command = json.loads((tmp_path / "j").read_text())["models"]["ease"]
    told = json.loads(json.dumps(found.to_dict()))
    parts = pr.split(pr.read(clicks), "ratio")
    assert pr.tune(parts, "ease", trials=3, metric="NDCG@10").to_dict()["settings"] == told["settings"]
    del command["seconds"], told["seconds"]
    assert told == command
    named = set(inspect.signature(pr.tune).parameters)
    wanted = {"trials", "limit", "metric", "folds", "fresh_folds", "study", "seed", "split", "protocol", "pool"}
    assert wanted <= named


def test_metrics_are_functions_of_ranks():
    ranks, indptr = np.array([1, 3]), np.array([0, 2])
    assert pr.metrics.precision(ranks, indptr, 5).tolist() == [0.4]
    assert pr.metrics.reciprocal_rank(ranks, indptr).tolist() == [1.0]


@pytest.mark.parametrize("models", [3, None, object(), [3], [None], [object()], pr.PURE(), [pr.PURE()]], ids=range(8))
def test_what_is_no_model_is_refused_in_a_sentence(models, clicks):
    with pytest.raises(ConfigError, match="a model is a class, and this is a"):
        pr.compare(pr.read(clicks), models)
    with pytest.raises(ConfigError, match="a model is a class, and this is a"):
        pr.make_model(models)
