import json

import pytest

from output.study.made import better, one, panel, swept
from purerec.errors import StoreError
from purerec.output.study.results import PanelResults, panels, read, welch

PURE = [0.42, 0.43, 0.44]
RIVAL = [0.40, 0.40, 0.40]


def test_a_file_has_one_panel_several_or_none():
    alone = one() | panel({"pure": PURE})
    assert [each.data for each in panels("table2", alone)] == ["ml-100k"]
    several = one(panels=[panel({"pure": PURE}), panel({"pure": PURE}, data="yelp", protocol="sampled")])
    assert [(each.data, each.protocol) for each in panels("t", several)] == [
        ("ml-100k", "exact"),
        ("yelp", "sampled"),
    ]
    assert panels("updating", one(rows=[])) == []


def test_files_of_before_panels_had_names_are_read():
    old = panel({"pure": PURE}, protocol="sampled")
    del old["protocol"], old["varied"]
    found = PanelResults("table3", old)
    assert found.protocol == "sampled"
    assert found.label == "sampled ranking"
    assert found.lines == {}


def test_means_deviations_and_lines_of_a_sweep():
    (found,) = panels("figure-prior", swept())
    assert found.mean("bpr", "P@5") == pytest.approx(0.38)
    assert found.deviation("bpr", "P@5") == pytest.approx(0.001)
    assert [value for value, _ in found.lines["pure"]] == [1e-5, 1e-4, 1e-3, 1e-1]
    assert found.setting == "prior"


def test_a_test_by_user_goes_before_one_by_seed():
    found = PanelResults("t", panel({"pure": PURE, "bpr": RIVAL}, tests=[better("bpr", -0.03, 0.2)]))
    pair = found.pair("pure", "bpr", "P@5")
    assert (pair.difference, pair.p, pair.how) == (0.03, 0.2, "paired by user")
    assert found.pair("bpr", "pure", "P@5").difference == -0.03
    contrast = {"model": "gmf", "rival": "bpr", "metric": "P@5", "difference": 0.01, "p": 0.3}
    other = PanelResults("t", panel({"pure": PURE, "gmf": PURE, "bpr": RIVAL}) | {"contrasts": [contrast]})
    assert other.pair("gmf", "bpr", "P@5").p == 0.3


def test_by_seed_the_p_value_is_that_of_a_paired_t_test():
    from scipy.stats import ttest_ind, ttest_rel

    pair = PanelResults("t", panel({"pure": PURE, "gmf": [0.41, 0.43, 0.42], "bpr": RIVAL})).pair(
        "pure", "gmf", "P@5"
    )
    assert pair.p == pytest.approx(ttest_rel(PURE, [0.41, 0.43, 0.42]).pvalue)
    assert pair.how == "paired by seed"
    assert welch(PURE, [0.41, 0.43, 0.45]) == pytest.approx(
        ttest_ind(PURE, [0.41, 0.43, 0.45], equal_var=False).pvalue
    )


def test_where_nothing_varies_there_is_no_p_value():
    found = PanelResults("t", panel({"a": [0.4], "b": [0.3], "c": [0.4, 0.4], "d": [0.3, 0.3]}, baseline="a"))
    assert found.pair("a", "b", "P@5").p is None
    assert found.pair("c", "d", "P@5").p is None
    assert found.pair("c", "c", "P@5").p == 1.0
    assert welch([1.0], [2.0, 3.0]) is None


def test_reading_a_folder(tmp_path):
    (tmp_path / "table2.json").write_text(json.dumps(one()))
    (tmp_path / "bench-x.json").write_text("[1, 2]")
    assert list(read(tmp_path)) == ["table2"]
    (tmp_path / "table3.json").write_text("{")
    with pytest.raises(StoreError, match=r"table3\.json.*reproduce table3"):
        read(tmp_path)
