"""`purerec compare`, in a separate process."""

import json

from conftest import purerec


def test_compare(clicks):
    done = purerec("compare", clicks, "--models", "itempop,pugmf", "--seeds", "2", check=0)
    assert "itempop" in done.stdout
    assert "Holm" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Use ")


def test_compare_takes_the_models_of_a_settings_file(clicks, tmp_path):
    settings = tmp_path / "tuned.toml"
    settings.write_text("[models.itempop]\nsettings = {}\n[models.itemknn]\nsettings = { neighbors = 5 }\n")
    done = purerec("compare", clicks, "--settings", settings, "--json", tmp_path / "found.json", check=0)
    found = json.loads((tmp_path / "found.json").read_text())["models"]
    assert list(found) == ["itempop", "itemknn"]
    assert found["itemknn"][0]["settings"]["neighbors"] == 5
    assert "has settings" not in done.stderr


def test_compare_with_settings_for_those_that_have_them(clicks, tmp_path):
    told = ["--models", "itempop,bpr,pugmf", "--seeds", "1", "--set", "dim=3", "--set", "epochs=2"]
    purerec("compare", clicks, *told, "--json", tmp_path / "found.json", check=0)
    runs = json.loads((tmp_path / "found.json").read_text())["models"]
    assert [runs[name][0]["settings"].get("dim") for name in ("itempop", "bpr", "pugmf")] == [None, 3, 3]


def test_gowalla_beside_what_others_have_published(data_dir, tmp_path):
    here = {"PUREREC_DATA": str(data_dir), "PUREREC_CACHE": str(tmp_path)}
    done = purerec("compare", "gowalla", "--models", "itempop", "--seeds", "1", env=here, check=0)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["published", "by", "others", "Recall@20", "NDCG@20"] in lines
    for published in (
        "MF-BPR 0.1291 0.1109",
        "LightGCN 0.1830 0.1554",
        "Mult-VAE 0.1641 0.1335",
        "UltraGCN 0.1862 0.1580",
    ):
        assert published.split() in lines
    for other in (["--split", "ratio"], ["--metrics", "P@5"]):
        again = purerec("compare", "gowalla", "--models", "itempop", "--seeds", "1", *other, env=here, check=0)
        assert "published" not in again.stdout
