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


def test_the_columns_are_told(command, tmp_path):
    (tmp_path / "plain.csv").write_text("anna,tea\nbob,milk\n")
    (tmp_path / "named.csv").write_text("sku,customer\ntea,anna\n")
    told = "plain.csv: no header, so columns go by position: user, item\n"
    assert told in command("ingest", "plain.csv", "--out", "log").err
    assert "named.csv" not in command("ingest", "named.csv", "--out", "log").err
    verbose = command("ingest", "named.csv", "--out", "log", "--verbose")
    assert "named.csv: 'sku' is the item, 'customer' is the user\n" in verbose.err


def test_a_folder_with_the_name_of_a_data_set(command, clicks, tmp_path):
    done = command("ingest", clicks, "--out", "world")
    assert "next: purerec fit ./world --model pure" in done.err
    told = "world is the name of a data set, and of a file or folder here; write ./world for the latter"
    refused(command("fit", "world", "--model", "itempop", "--out", "m"), told)
    refused(command("data", "show", "world"), told)
    assert "of 60 users and 40 items" in command("fit", "./world", "--model", "itempop", "--out", "m").out
    (tmp_path / "ml-100k").mkdir()  # as unpacked from its archive
    assert "943" in command("data", "show", "ml-100k").out


def test_wrong_use(command, clicks, tmp_path):
    refused(command("ingest", "none.csv", "--out", "log"), "none.csv: there is no such file")
    refused(command("ingest", clicks, "--user", "visitor", "--out", "log"), "there is no column 'visitor'")
    refused(command("ingest", clicks, "--out", "log", "--memory-mb", 1), "memory_mb must be at least 64")
    refused(command("ingest", "nowhere://x/y.csv", "--out", "log"), "nowhere://x/y.csv: ")
    assert list(tmp_path.iterdir()) == []
