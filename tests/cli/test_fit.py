"""`purerec fit`, in a separate process."""

import json
import signal
import subprocess
import time

import pytest

import purerec as pr
from conftest import PUREREC, purerec


def test_from_two_columns_to_recommendations(clicks, tmp_path):
    folder = tmp_path / "m"
    quick = ["--set", "epochs=20", "--set", "pretrain_epochs=15"]
    purerec("fit", clicks, "--model", "pure", *quick, "--out", folder, check=0)
    assert (folder / "report.html").exists()
    found = json.loads(purerec("recommend", folder, "--user", "u3", "-k", "3", "--json", "-", check=0).stdout)
    assert [row["rank"] for row in found] == [1, 2, 3]
    assert "u3" in purerec("recommend", folder, "--user", "u3", check=0).stdout
    history = purerec("recommend", folder, "--history", "i1,i3,i5,zzz", "--json", "-", check=0)
    assert "'zzz'" in history.stderr
    assert all(row["item"] not in ("i1", "i3", "i5") for row in json.loads(history.stdout))


@pytest.mark.parametrize("option", ["--titles", "--items"])
def test_a_table_of_other_items_is_refused_before_the_fit(clicks, tmp_path, option):
    table = tmp_path / "items.csv"
    table.write_text("item,title\n1,One\n2,Two\n")
    done = purerec("fit", clicks, "--model", "itempop", option, table, "--out", tmp_path / "m", check=2)
    assert "write them as in the data" in done.stderr
    assert "'i1'" in done.stderr or "'i0'" in done.stderr
    assert not (tmp_path / "m").exists()


def test_the_hint_at_positives_is_one_that_works(tmp_path):
    for scale, hint in (("1,5", 4), ("0,1", 1), ("1,10", 8), ("0.5,5", 4), ("4.6,5.9", 5.9)):
        low, high = scale.split(",")
        (tmp_path / "log.csv").write_text(f"user,item,rating\na,x,{low}\na,y,{high}\nb,x,{high}\n")
        told = purerec("data", "show", tmp_path / "log.csv", check=0).stderr
        assert f"(to count only {hint} and above, add --min-rating {hint})" in told
        purerec("data", "show", tmp_path / "log.csv", "--min-rating", str(hint), check=0)


@pytest.mark.slow
def test_interrupted_fit_saves_and_resumes_to_the_same_bits(clicks, tmp_path):
    def fit(folder, *more):
        return ["fit", str(clicks), "--model", "pure", "--set", "epochs=500", "--set", "pretrain_epochs=250",
                "--out", str(folder), *more]  # fmt: skip

    purerec(*fit(tmp_path / "whole"), check=0)
    process = subprocess.Popen([*PUREREC, *fit(tmp_path / "part")], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("part*.checkpoint")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the fit ended before it could be interrupted")
    assert process.returncode == 130
    assert "--resume" in stderr
    assert not (tmp_path / "part").exists()
    purerec(*fit(tmp_path / "part"), "--resume", check=0)
    same = (tmp_path / "whole" / "tensors.safetensors").read_bytes()
    assert (tmp_path / "part" / "tensors.safetensors").read_bytes() == same
    assert not list(tmp_path.glob("*.checkpoint"))


def test_an_update_with_nothing_new_changes_nothing(command, clicks, tmp_path):
    fitted = ("--model", "gmf", "--set", "epochs=2", "--set", "dim=2", "--split", "ratio", "--out", "m")
    assert command("fit", clicks, *fitted).code == 0
    known = pr.load_model(tmp_path / "m")
    user, item = known.users[0], known.items[int(known.seen.indices[0])]
    (tmp_path / "known.csv").write_text(f"user,item\n{user},{item}\n")

    def content(folder):
        return {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}

    before = content("m")
    done = command("update", "m", "known.csv", "--out", "m")
    assert "the model in m is unchanged" in done.out
    assert content("m") == before
    assert command("update", "m", "known.csv", "--out", "copy").code == 0
    copied = content("copy")
    facts, stored = (json.loads(files["manifest.json"]) for files in (before, copied))
    assert {"metrics", "history"} <= facts.keys()
    assert [stored[name] for name in ("metrics", "history")] == [facts[name] for name in ("metrics", "history")]
    assert copied["report.html"] == before["report.html"]
