import re

import numpy as np
import pytest

import purerec as pr
from purerec.output.report import fit_report
from purerec.output.svg import line_chart


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    data = pr.Interactions.from_columns(rng.integers(0, 40, 900), rng.integers(0, 30, 900), name="<b>clicks</b>")
    parts = pr.split(data, "ratio")
    model = pr.PURE(epochs=8, pretrain_epochs=4, dim=4, validate_every=2).fit(parts.train, valid=parts.valid)
    return fit_report(model, pr.evaluate(model, parts), {"paper": {"P@5": 0.39}})


def test_report_is_one_file_that_needs_no_network(page):
    assert "http" not in page
    assert "<script" not in page
    assert "src=" not in page


def test_report_has_settings_metrics_and_every_curve(page):
    for text in ("Settings", "fake_weight", "Metrics on test data", "NDCG@10", "On validation data", ".3900",
                 "D on positives, unlabeled pairs and fakes", "Mean norms of embeddings", "generators"):  # fmt: skip
        assert text in page
    assert page.count("<svg") == 5


def test_names_are_data_not_markup(page):
    assert "<b>clicks" not in page
    assert "&lt;b&gt;clicks&lt;/b&gt;" in page


def test_a_model_without_history_has_a_report_too():
    model = pr.ItemPop().fit(pr.Interactions.from_columns([1, 2], [1, 2]))
    assert "itempop" in fit_report(model)


def test_charts():
    assert "nothing recorded" in line_chart({"a": []}, x_label="epoch")
    flat = line_chart({"a": [(0, 1.0), (1, 1.0)]}, x_label="epoch")
    assert "nan" not in flat
    assert "inf" not in flat
    log = line_chart({"a": [(0, 1e-4), (9, 1e-1)], "none": [(0, 0.0)]}, x_label="epoch", log=True)
    assert "1e-4" in log
    assert "none" not in log
    xs = [float(p.split(",")[0]) for p in re.findall(r'points="([^"]+)"', log)[0].split()]
    assert xs == sorted(xs)
