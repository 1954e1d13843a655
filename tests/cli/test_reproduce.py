"""`purerec reproduce`: the messages before anything is run, and the report afterwards."""

from conftest import need, purerec


def test_a_report_that_cannot_be_written_is_an_error_before_the_work(tmp_path):
    need("vl_convert")
    told = ["reproduce", "table2", "--quick", "--out", tmp_path / "results", "--report"]
    assert "ends in .html" in purerec(*told, tmp_path / "report.txt", check=2).stderr
    (tmp_path / "file").touch()
    assert "Not a directory" in purerec(*told, tmp_path / "file" / "report.html", check=2).stderr
    assert not (tmp_path / "results").exists()


def test_the_report_of_one_experiment(tmp_path, ml_100k):
    need("vl_convert")
    out = tmp_path / "new"
    purerec("reproduce", "table1", "--quick", "--out", out, "--report", out / "report.html", check=0)
    page = (out / "report.html").read_text()
    assert "id='table-table1'" in page
    assert "A quick run" in page
    assert "commit" in page
