"""Tables, figures and the page of a study."""

import re

import pytest

from conftest import ROOT, need
from output.study.made import CHARTS, better, one, panel, swept
from purerec.errors import ConfigError
from purerec.experiments.reproduce import names
from purerec.output.study.figures import FigureSpec, charts_of, figure_specs
from purerec.output.study.report import study_report
from purerec.output.study.results import read
from purerec.output.study.tables import p_value, seconds, tables_of

need("vl_convert")
FOUR = {"pure": [0.42, 0.43], "ease": [0.4, 0.41], "bpr": [0.4, 0.4], "gmf": [0.4, 0.41]}
WORSE = better("bpr", -0.03, 0.01) | {"verdict": "worse"}
RESULTS = {
    "table2": one() | panel({"pure": [0.42, 0.43], "bpr": [0.4, 0.4]}, tests=[WORSE]),
    "defaults": one("defaults") | panel(FOUR),
    "figure-prior": swept(),
    "figure-game": one("figure-game", charts=CHARTS),
}


def test_a_table_has_means_deviations_the_papers_rows_and_verdicts():
    (table,) = tables_of("table2", RESULTS["table2"])
    assert table.rows[0][:2] == ["pure", "**.4250**"]
    assert table.rows[1][:2] == [" ± over 2 seeds", ".0071"]
    assert table.rows[2][:2] == [" paper", ".3901"]
    assert table.rows[3][:2] == ["bpr", ".4000 ▼"]


def test_every_results_file_of_this_clone_has_a_table_or_a_figure():
    results = read(ROOT / "results")
    drawn = {name for spec in figure_specs() for name in spec.results}
    for name, found in results.items():
        assert tables_of(name, found) or name in drawn, name


def test_other_kinds_of_experiments_have_tables_too():
    values = {"pure": {"a": {"defaults": 0.1, "dim 8": 0.2}, "b": {"defaults": 0.3, "dim 8": 0.4}}}
    (table,) = tables_of("leave-one-out", one("leave-one-out", metric="P@5", values=values, left_out={}))
    assert table.rows == [["pure, defaults", ".1000", ".3000"], ["pure, dim 8", ".2000", ".4000"]]
    (table,) = tables_of("r", one("r", rows=[{"bias": 1.0, "distance": {"gmf": 0.04}}], charts=CHARTS))
    assert table.rows == [["1", ".0400"]]
    sizes = {"data": "yelp", "users": 1000, "density": 0.0123456, "paper": {"users": 999}}
    (table,) = tables_of("table1", one("table1", rows=[sizes]))
    assert table.rows == [["yelp", "1,000", "0.01235"], [" paper", "999", ""]]
    prior = {"world": "w", "prior": 0.1, "estimates": {"best_bin": 0.25}, "spread": {"best_bin": 0.01}}
    (table,) = tables_of("p", one("p", rows=[prior]))
    assert table.rows == [["w", ".1000", ".2500 ± .0100"]]
    alike = {"data": "d", "model": "m", "runs": [{"test": {"raw": 0.1}}, {"test": {"raw": 0.3}}]}
    (table,) = tables_of("s", one("s", rows=[alike], k=10))
    assert table.rows == [["d, m", ".2000"]]


@pytest.mark.parametrize(
    ("value", "text"), [(0.00021, "0.000"), (0.25, "0.2"), (9.96, "10.0"), (12.4, "12"), (1234.5, "1234")]
)
def test_times_are_rounded_for_people(value, text):
    assert seconds(value) == text


def test_p_values_are_rounded_for_people():
    assert [p_value(p) for p in (None, 0.0, 0.00012, 0.5)] == ["", "< 0.0001", "0.00012", "0.5"]


def charts(name, **facts):
    return charts_of(FigureSpec(name="f", title="F", results=[name], **facts), RESULTS)


def test_a_sweep_has_a_curve_a_band_and_its_rivals():
    (chart,) = charts("figure-prior", chart="sweep")
    curve = [row for row in chart.spec["data"] if row["series"] == "pure"]
    assert [row["x"] for row in curve] == [1e-5, 1e-4, 1e-3, 1e-1]
    assert curve[0]["low"] < curve[0]["y"] < curve[0]["high"]
    assert all(row["dashed"] for row in chart.spec["data"] if row["series"] == "bpr")


def test_time_and_bubbles_put_what_they_are_about_first():
    (chart,) = charts("defaults", chart="time", models=["pure", "bpr"])
    assert [row["name"] for row in chart.spec["data"]] == ["pure", "bpr"]
    (chart,) = charts("defaults", chart="bubbles", metrics=["P@5"])
    assert chart.spec["data"][0]["name"] == "pure"


def test_recorded_charts_are_drawn_as_they_are():
    made = charts("figure-game", chart="recorded")
    assert [chart.title for chart in made] == ["D of pure", "Map, pure, users", "Scores of pure"]
    assert [chart.title for chart in charts("figure-game", chart="recorded", show=["D "])] == ["D of pure"]


def test_regret_climbs_to_all_logs():
    choices = {log: {"regret_of_defaults": regret} for log, regret in (("a", 0.04), ("b", 0.01))}
    found = {"x": one("x", metric="NDCG@20", logs={"a": {}, "b": {}}, left_out={"pure": choices})}
    (chart,) = charts_of(FigureSpec(name="f", title="F", results=["x"], chart="regret"), found)
    assert [(row["x"], row["y"]) for row in chart.spec["data"]] == [(1, 0.5), (4, 1)]


def test_a_figure_without_results_is_not_drawn():
    assert charts("figure-noise", chart="sweep") == []


def test_figures_name_experiments_that_there_are():
    for spec in figure_specs():
        assert set(spec.results) <= set(names()), spec.name


def test_a_misspelt_figure_is_an_error(tmp_path):
    path = tmp_path / "figures.toml"
    path.write_text('[[figures]]\nname = "a"\ntitle = "A"\nchart = "pie"\nresults = ["table2"]\n')
    with pytest.raises(ConfigError, match="pie"):
        figure_specs(path)


def test_the_page_has_everything_and_needs_nothing():
    page = study_report(RESULTS, {"table2": "Made yesterday."})
    ids = re.findall(r"id='([^']+)'", page)
    assert ids[0] == "summary"
    assert {
        "figure-prior",
        "figure-game",
        "figure-accuracy-and-time",
        "table-table2",
        "table-defaults",
        "claims",
    } <= {*ids}
    for link in re.findall(r"href='#([^']+)'", page):
        assert link in ids
    assert "Made yesterday." in page
    assert "<script" not in page
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert page.count("<svg") == len(re.findall(r"<svg[^>]* aria-label=", page)) == 5


def test_a_quick_run_says_so():
    assert "quick run" not in study_report({"defaults": RESULTS["defaults"]})
    assert "quick run" in study_report({"defaults": RESULTS["defaults"] | {"quick": True}})


def test_names_are_data_not_markup():
    page = study_report({"table2": one() | panel({"<b>pure": [0.4, 0.5], "pure": [0.4, 0.5]})})
    assert "<b>pure" not in page
    assert "&lt;b&gt;pure" in page
