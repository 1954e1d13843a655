"""Settings files, and where they may be used."""

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import purerec as pr
from conftest import ROOT, need
from purerec.errors import ConfigError, DataError
from purerec.models.registry import make_model
from purerec.tuning import objective, settings_file
from tuning.tastes import columns

need("optuna")


PLAIN = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=20))


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.one_of(PLAIN, st.lists(PLAIN, max_size=3)), max_size=4))
def test_what_is_written_is_read_back(entry):
    text = f"settings = {settings_file._value(entry)}"
    assert tomllib.loads(text) == {"settings": entry}


def test_settings_files(tmp_path):
    path = tmp_path / "deep" / "tuned.toml"
    facts = {"data": "tastes", "trials_each": 3, "minutes_each": None}
    models = {
        "svd": {"settings": {"dim": 3, "learning_rate": 0.05}, "kept": "tuned", "fresh": None},
        "ials": {"settings": {"alpha": None}, "kept": "defaults"},
        "itempop": {"settings": {}},
    }
    settings_file.write_settings(path, facts, models)
    assert settings_file.read_settings(path)["svd"] == {"dim": 3, "learning_rate": 0.05}
    assert make_model("ials", **settings_file.settings_from(path, "ials")).config.alpha is None
    with pytest.raises(ConfigError, match="has settings for itempop, svd, ials, not for bpr; leave bpr out"):
        settings_file.settings_from(path, "bpr")
    path.write_text("[models.svd]\nsettings = { dmi = 3 }\n")
    with pytest.raises(ConfigError, match="did you mean dim"):
        settings_file.settings_from(path, "svd")
    for wrong in ("x = [", "models = 3", "[models.svd]\ndim = 3"):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match="purerec tune --out"):
            settings_file.settings_from(path, "svd")
    with pytest.raises(ConfigError, match="cannot read"):
        settings_file.settings_from(tmp_path / "nothing.toml", "svd")
    with pytest.raises(ConfigError, match="no tuned settings for 'clicks'"):
        settings_file.tuned_settings("clicks", "svd")
    with pytest.raises(ConfigError, match="give one of them"):
        settings_file.chosen_file("ml-100k", path, tuned=True)


def test_settings_of_other_models_are_kept_or_the_file_is(tmp_path):
    path = tmp_path / "tuned.toml"
    facts = {"data": "tastes", "searched": {"seed": 0, "parameters": {"test": 0.2}}, "metric": "P@5", "folds": 2}
    first, second = (facts | {"command": f"purerec tune --model {name}"} for name in ("svd", "ease"))
    assert settings_file.kept_settings(path, first, ["svd"]) == {}
    settings_file.write_settings(path, first, {"svd": {"settings": {"dim": 3, "power": None}}})
    kept = settings_file.kept_settings(path, second, ["ease"])
    settings_file.write_settings(path, second, kept | {"ease": {"settings": {}}})
    again = settings_file.kept_settings(path, second, ["bpr"])
    assert again["svd"] == {"command": first["command"], "settings": {"dim": 3, "power": "none"}}
    assert again["ease"] == {"command": second["command"], "settings": {}}
    with pytest.raises(
        ConfigError, match=r'of svd from another search \(metric was "P@5", now "MRR"\) and was not ch'
    ):
        settings_file.kept_settings(path, facts | {"metric": "MRR"}, ["ease"])
    assert settings_file.kept_settings(path, facts | {"metric": "MRR"}, ["ease", "svd"]) == {}  # all are found anew


def searched_file(path, parts, **changes):
    facts = {"data": "tastes", "split": parts.label, "searched": settings_file.searched(parts) | changes}
    return settings_file.write_settings(path, facts, {"svd": {"settings": {"dim": 3}}})


def test_settings_are_refused_where_their_search_had_rows_of_the_test_part(tmp_path):
    log = pr.Interactions.from_columns(*columns(), name="tastes").deduplicate()
    parts = pr.split(log, "ratio", seed=0)
    path = searched_file(tmp_path / "tuned.toml", parts)
    warnings = []
    settings_file.check_searched(path, log, parts, warnings.append)
    other = pr.split(log, "ratio", seed=1)
    shared = parts.full_train.pairs.overlap(other.test.pairs)
    assert shared > 0
    with pytest.raises(DataError, match=rf"{shared} of the {len(other.test.pairs)} rows .*here ratio .*seed=1.*tune"):
        settings_file.check_searched(path, log, other, warnings.append)
    # The same test part, and train and validation divided differently: none of its rows was searched on.
    again = pr.split(log, "ratio", seed=0, valid=False)
    settings_file.check_searched(path, log, again, warnings.append)
    assert not warnings


def test_settings_searched_on_the_past_may_be_judged_by_what_came_later(tmp_path):
    user, item = columns()
    log = pr.Interactions.from_columns(user, item, timestamp=np.arange(len(user)), name="tastes").deduplicate()
    path = searched_file(tmp_path / "tuned.toml", pr.split(log, "temporal", at=800))
    warnings = []
    settings_file.check_searched(path, log, pr.split(log, "temporal", at=1000), warnings.append)
    assert not warnings
    with pytest.raises(DataError, match="would be inflated"):
        settings_file.check_searched(path, log, pr.split(log, "temporal", at=600), warnings.append)


def test_another_threshold_does_not_hide_what_was_searched_on(tmp_path):
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(
        *columns(), rating=rng.integers(1, 6, 1500).astype(np.float32), positive_rating=4, name="tastes"
    ).deduplicate()
    path = searched_file(tmp_path / "tuned.toml", pr.split(log, "ratio"))
    warnings = []
    low = log.with_positives(2)
    settings_file.check_searched(path, low, pr.split(low, "ratio"), warnings.append)
    with pytest.raises(DataError, match="would be inflated"):
        settings_file.check_searched(path, low, pr.split(low, "ratio", seed=3), warnings.append)
    assert not warnings


def test_settings_of_other_data_or_of_unknown_origin_are_used_with_a_warning(tmp_path):
    log = pr.Interactions.from_columns(*columns(), name="tastes")
    parts = pr.split(log, "ratio")
    grown = pr.Interactions.from_columns(*columns(1600), name="tastes")
    path = searched_file(tmp_path / "tuned.toml", parts)
    strange = searched_file(tmp_path / "strange.toml", parts, method="u9", parameters={"fold": 3})
    untold = tmp_path / "by-hand.toml"
    untold.write_text("[models.svd]\nsettings = { dim = 3 }\n")
    warnings = []
    for file in (path, strange, untold):
        settings_file.check_searched(file, grown, pr.split(grown, "ratio"), warnings.append)
    assert len(warnings) == 3
    told = ["was tuned on other data"] * 2 + ["does not say what it was tuned on"]
    assert all(text in line and "inflated" in line for text, line in zip(told, warnings, strict=True))


@pytest.mark.parametrize(("name", "how"), [("ml-100k", "u1"), ("ml-1m", "auto"), ("yelp", "auto")])
def test_settings_of_the_papers_data_sets_know_their_split(name, how, data_dir):
    log = pr.load(name)
    path = settings_file.tuned_file(name)
    parts = pr.split(log, how)
    assert tomllib.loads(path.read_text())["searched"] == settings_file.searched(parts)
    assert tomllib.loads(path.read_text())["split"] == parts.label
    settings_file.check_searched(path, log, parts, pytest.fail)
    with pytest.raises(DataError, match="would be inflated"):
        settings_file.check_searched(path, log, pr.split(log, "u2" if how == "u1" else "ratio"), pytest.fail)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "tuned").glob("*.toml")), ids=lambda path: path.stem)
def test_settings_of_the_papers_data_sets(path):
    content = tomllib.loads(path.read_text())
    assert content["data"] == path.stem
    assert {"split", "metric", "folds", "fresh_folds", "command", "purerec", "date"} <= set(content)
    for name, entry in content["models"].items():
        assert settings_file.tuned_settings(path.stem, name) == entry["settings"]
        assert entry["validation"]["best"] >= entry["validation"]["defaults"]
        fresh = entry.get("fresh")
        sure = fresh is not None and fresh["difference"] > 0 and fresh["p"] < objective.SIGNIFICANT
        assert (entry["kept"] == "tuned") == sure


@pytest.mark.parametrize("key", ["searched", "metric", "settings"])
def test_misspelt_keys_are_refused(key, tmp_path):
    """Without `searched`, nobody could tell that settings were chosen on the test part."""
    text = settings_file.tuned_file("ml-100k").read_text()
    path = tmp_path / "tuned.toml"
    path.write_text(text.replace(f"\n{key} = ", f"\n{key[:2]}{key[3:]} = ", 1))
    place = "models.itempop." if key == "settings" else ""
    with pytest.raises(ConfigError, match=f"unknown key '{place}{key[:2]}{key[3:]}'; did you mean {key}"):
        settings_file.read_settings(path)


def test_settings_that_a_model_does_not_have_are_told_with_their_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("\ufeff[models.bpr]\nsettings = { dmi = 5 }\n", encoding="utf-8")  # with a byte order mark
    with pytest.raises(ConfigError, match=r"mine\.toml: bpr has no setting 'dmi'; did you mean dim"):
        settings_file.settings_from(path, "bpr")
