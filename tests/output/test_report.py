import re

import numpy as np
import pytest

import purerec as pr
from conftest import need
from purerec.output import svg
from purerec.output.report import fit_report

need("vl_convert")


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    data = pr.Interactions.from_columns(rng.integers(0, 40, 900), rng.integers(0, 30, 900), name="<b>clicks</b>")
    parts = pr.split(data, "ratio")
    model = pr.PURE(epochs=8, pretrain_epochs=4, dim=4, validate_every=2).fit(parts.train, valid=parts.valid)
    return fit_report(model, pr.evaluate(model, parts), {"paper": {"P@5": 0.39}})


def test_report_is_one_file_that_needs_no_network(page):
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "<script" not in page
    assert "src=" not in page


def test_report_has_settings_metrics_and_every_curve(page):
    for text in ("Settings", "fake_weight", "Metrics on test data", "NDCG@10", "On validation data", "0.3900",
                 "D on positives, unlabeled pairs and fakes", "Mean norms of embeddings", "generators"):  # fmt: skip
        assert text in page
    assert page.count("<svg") == 5


def test_names_are_data_not_markup(page):
    assert "<b>clicks" not in page
    assert "&lt;b&gt;clicks&lt;/b&gt;" in page


def test_a_model_without_history_has_a_report_too():
    model = pr.ItemPop().fit(pr.Interactions.from_columns([1, 2], [1, 2]))
    assert "itempop" in fit_report(model)


def test_without_the_extra_there_are_no_curves_and_the_page_says_why(page, monkeypatch):
    model = pr.PUGMF(epochs=1, dim=2).fit(pr.Interactions.from_columns([1, 1, 2], [1, 2, 2]))
    monkeypatch.setattr(svg, "can_draw", lambda: False)
    text = fit_report(model)
    assert "<svg" not in text
    assert "purerec[plot]" in text
