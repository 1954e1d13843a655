"""How data, splits, results and settings are shown."""

from __future__ import annotations

import pytest

import purerec as pr
from conftest import checkerboard
from purerec.errors import ConfigError, counted


def test_a_split_is_shown_in_two_lines() -> None:
    split = pr.split(checkerboard(), "ratio")
    assert (
        repr(split)
        == "Split('checkerboard', ratio (test 0.2), seed 0)\ntrain 115, valid 29, test 36, 19 users to evaluate"
    )


def test_numbers_and_nouns_agree() -> None:
    assert (counted(1, "user"), counted(1000, "user"), counted(2, "person", "people")) == (
        "1 user",
        "1,000 users",
        "2 people",
    )
    one = pr.Interactions.from_columns(["a"], ["<b>"], name="<one>")
    assert repr(one) == "Interactions('<one>': 1 user, 1 item, 1 interaction, 1 positive, density 100.000%)"
    assert "&lt;one&gt;" in one._repr_html_()
    assert "<one>" not in one._repr_html_()


def test_tables_for_notebooks() -> None:
    split = pr.split(checkerboard(), "ratio")
    assert "<td style='text-align:right'>115</td>" in split._repr_html_()
    found = pr.evaluate(pr.ItemPop().fit(split.full_train), split, metrics="P@5,MRR")
    assert repr(found) == str(found)
    assert len(repr(found).splitlines()) == 3
    page = found._repr_html_()
    assert f"<td style='text-align:right'>{found.metrics['P@5']:.4f}</td>" in page
    assert "19 users, 1 skipped (no test positive)" in page


def test_settings_as_in_scikit_learn() -> None:
    model = pr.EASE(regularization=10).fit(checkerboard())
    assert model.get_params()["regularization"] == 10
    assert pr.EASE(**model.get_params()).config == model.config
    assert model.set_params(regularization=20) is model
    assert (model.config.regularization, model.is_fitted) == (20, False)
    with pytest.raises(ConfigError, match="no setting"):
        model.set_params(nothing=1)
