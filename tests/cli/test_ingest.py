"""`purerec ingest`, and the commands that read what it wrote."""

import json

from cli.conftest import refused


def test_from_files_to_a_model(command, clicks, tmp_path):
    done = command("ingest", clicks, "--out", "log", "--partitions", 3)
    assert done.code == 0, done.err
    assert "1,500 interactions of 60 users and 40 items in 3 parts, written to log" in done.out
    shown = command("data", "show", "log", "--json", "-")
    assert json.loads(shown.out)["users"] == 60
    assert command("fit", "log", "--model", "itempop", "--out", "m").code == 0
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["fitted_on"]["interactions"] == 1500


def test_wrong_use(command, clicks, tmp_path):
    refused(command("ingest", "none.csv", "--out", "log"), "none.csv: there is no such file")
    refused(command("ingest", clicks, "--user", "visitor", "--out", "log"), "there is no column 'visitor'")
    refused(command("ingest", clicks, "--out", "log", "--memory-mb", 1), "memory_mb must be at least 64")
    refused(command("ingest", "nowhere://x/y.csv", "--out", "log"), "nowhere://x/y.csv: ")
    assert list(tmp_path.iterdir()) == []
