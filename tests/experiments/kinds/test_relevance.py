import numpy as np
import pytest
from scipy.special import expit

from purerec.experiments.kinds.charts import recorded
from purerec.experiments.kinds.relevance import _calibrated, true_and_estimated
from purerec.experiments.specs import RelevanceSpec


def test_estimates_rise_with_the_truth():
    world = {"users": 80, "items": 50, "dim": 2, "prior": 0.1}
    models = [{"name": "pugmf", "settings": {"epochs": 20, "dim": 2}}]
    spec = RelevanceSpec(
        title="t", kind="relevance", seeds=2, metric="P@5", exposures=[0.0], test_users=80, groups=4, world=world,
        models=models,
    )  # fmt: skip
    found = true_and_estimated(spec, 2, print)
    (chart,) = found["charts"]
    curve, exact = chart["series"]
    assert [len(point) for point in curve["points"]] == [4] * 4  # with a band of two seeds
    estimates = [point[1] for point in curve["points"]]
    assert estimates[-1] > estimates[0]
    assert exact["dashed"]
    assert 0 < found["rows"][0]["distance"]["pugmf"] < 0.2


def test_scores_are_shifted_to_the_true_mean():
    score = np.random.default_rng(0).normal(3, 2, 1000)
    shifted = _calibrated(score, 0.05)
    assert shifted.mean() == pytest.approx(0.05)
    assert np.corrcoef(np.log(shifted / (1 - shifted)), score)[0, 1] == pytest.approx(1)
    true = expit(score - 4)
    np.testing.assert_allclose(_calibrated(score, float(true.mean())), true, atol=1e-9)


def test_a_chart_of_nothing_is_an_error():
    with pytest.raises(Exception, match="nothing to draw"):
        recorded("t", "x", "y", {"a": []})
