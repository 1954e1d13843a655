"""`purerec data`, in a separate process."""

from conftest import purerec


def test_data_show(data_dir):
    done = purerec("data", "show", "ml-1m", env={"PUREREC_DATA": str(data_dir)}, check=0)
    for number in ("6,040", "3,706", "1,000,209", "575,281"):
        assert number in done.stdout
    listed = purerec("data", "list", env={"PUREREC_DATA": str(data_dir)}, check=0).stdout
    assert "ml-100k" in listed
    assert "1,682" in listed  # as read; the paper's Table 1 has 1,679
    assert "\x1b" not in listed  # plain text in a pipe


def test_a_file_of_ones_own_is_not_in_the_paper(clicks):
    shown = purerec("data", "show", clicks, check=0).stdout.splitlines()
    assert shown[:2] == ["clicks        here", "users         60"]


def test_list_and_show_count_the_same(ml_100k):
    from purerec.data import catalog

    for name in ("ml-100k", "world"):
        told, found = catalog.describe(name), catalog.statistics(catalog.load(name))
        assert {key: told[key] for key in ("users", "items", "interactions")} == {
            key: found[key] for key in ("users", "items", "interactions")
        }
