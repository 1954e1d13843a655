"""`purerec data`, in a process of its own."""

from conftest import purerec


def test_data_show(data_dir):
    done = purerec("data", "show", "ml-1m", env={"PUREREC_DATA": str(data_dir)}, check=0)
    for number in ("6,040", "3,706", "1,000,209", "575,281"):
        assert number in done.stdout
    listed = purerec("data", "list", env={"PUREREC_DATA": str(data_dir)}, check=0).stdout
    assert "ml-100k" in listed
    assert "\x1b" not in listed  # plain text in a pipe
