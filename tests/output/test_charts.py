"""Charts: their content, and that drawing them needs nothing else and hides nothing."""

import builtins
import re
from xml.etree import ElementTree

import pytest

from conftest import need
from purerec.errors import MissingExtraError
from purerec.output import palette, svg
from purerec.output.charts import Axis, Point, Series, Spot, bubbles, lines, scatter

need("vl_convert")
SVG = "{http://www.w3.org/2000/svg}"
METHODS = [Spot("ease", 0.5, 0.42), Spot("pure", 10, 0.43, group="ours", low=0.42, high=0.44, size=0.43)]


def titles(text):
    return [node.text for node in ElementTree.fromstring(text).iter(f"{SVG}title")]


def sweep(**points):
    series = [Series(name, [Point(x, y) for x, y in found]) for name, found in points.items()]
    return lines("Prior", series, Axis("prior", log=True), Axis("P@5"))


def test_every_point_of_a_curve_says_its_value_on_hover():
    drawn = svg.element(sweep(pure=[(1e-6, 0.4), (1e-1, 0.38)]))
    assert titles(drawn) == ["pure: 0.4 at prior 1e-06", "pure: 0.38 at prior 0.1"]


def test_bands_and_references():
    band = Series("pure", [Point(1, 0.4, 0.35, 0.45), Point(2, 0.5, 0.45, 0.55)])
    rival = Series("bpr", [Point(1, 0.3), Point(2, 0.3)], dashed=True)
    chart = lines("", [band, rival], Axis("epoch"), Axis("P@5"))
    drawn = svg.element(chart)
    assert titles(drawn)[0] == "pure: 0.4 (0.35 to 0.45) at epoch 1"
    assert "bpr at 0.3" in chart.alt
    assert "stroke-dasharray" in drawn
    assert 'opacity="0.1' in drawn  # the band; numbers are rounded


def test_a_text_alternative_names_the_ends_of_each_curve():
    alt = sweep(pure=[(1e-6, 0.4), (1e-1, 0.38)]).alt
    assert alt == "Prior: P@5 against prior. pure from 0.4 at 1e-06 to 0.38 at 0.1."


def test_values_that_a_logarithmic_axis_cannot_show_are_left_out():
    chart = lines("D", [Series("fake", [Point(0, 0.0), Point(1, float("nan")), Point(2, 1e-3)])], Axis("epoch"),
                  Axis("D", log=True))  # fmt: skip
    assert [row["x"] for row in chart.spec["data"]] == [2]
    drawn = svg.element(chart)
    assert "NaN" not in drawn
    assert "Infinity" not in drawn


def test_a_chart_of_nothing_says_so():
    chart = lines("Loss", [Series("a", [])], Axis("epoch"), Axis("loss"))
    assert "Nothing was recorded" in chart.alt
    assert svg.element(chart).startswith("<svg")


def test_flat_curves_have_an_axis():
    assert "NaN" not in svg.element(sweep(pure=[(1, 0.4), (2, 0.4)]))
    assert "NaN" not in svg.element(sweep(pure=[(1, 0.4)]))


def test_spots_have_names_that_do_not_cover_each_other():
    same = [Spot(f"model {n}", 1.0, 0.4) for n in range(3)]
    drawn = svg.element(scatter("Time", same, Axis("seconds", log=True), Axis("P@5")))
    places = re.findall(r"<text ([^>]*)>model \d", drawn)
    assert len(set(places)) == 3


def test_bubbles_are_in_the_given_order():
    drawn = svg.element(bubbles("Time", METHODS, Axis("seconds", log=True), "NDCG@5"))
    assert drawn.index(">ease<") < drawn.index(">pure<")
    assert "pure: seconds 10, NDCG@5 0.43 (0.42 to 0.44)" in titles(drawn)


def test_names_are_data_not_markup():
    evil = "<script>alert(1)</script>"
    drawn = svg.element(sweep(**{evil: [(1e-3, 0.4)]}))
    assert "<script" not in drawn
    assert titles(drawn)[0].startswith(evil)


def test_drawing_twice_gives_the_same_file():
    chart = sweep(pure=[(1e-6, 0.4), (1e-1, 0.38)])
    assert svg.file([chart], title="Prior") == svg.file([chart], title="Prior")


def test_a_file_stands_alone():
    chart = scatter("Time", METHODS, Axis("seconds", log=True), Axis("P@5"))
    text = svg.file([chart, chart, chart], title="Three")
    root = ElementTree.fromstring(text)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"].startswith("Three. Time: P@5 against seconds.")
    assert len(root.findall(f"{SVG}svg")) == 3
    assert "prefers-color-scheme: dark" in text
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    used = set(re.findall(r"var\((--\w+)\)", text))
    assert used <= set(re.findall(r"(--\w+):", palette.style()))


@pytest.mark.parametrize("n", [0, 7, 8, 30])
def test_there_is_a_colour_for_every_series(n):
    assert f"{palette.colour(n)[4:-1]}:" in palette.style()


def test_without_the_extra_the_error_names_it(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "vl_convert":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"purerec\[plot\]"):
        svg.element(sweep(pure=[(1e-6, 0.4)]))
