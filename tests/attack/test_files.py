"""Nothing that is not purerec's own is deleted or overwritten."""

import os
import stat
import subprocess
import threading

import pytest

from attack.files import everything, fit
from conftest import PUREREC, checkerboard
from purerec.errors import ConfigError, StoreError
from purerec.models.registry import load_model, make_model
from purerec.storage import check_outputs, remove_folder, write_file

# ---------------------------------------------------------------------- other people's folders


def test_a_foreign_checkpoint_folder_stays(run, csv, tmp_path):
    keep = tmp_path / "keep.checkpoint"
    keep.mkdir()
    (keep / "thesis.txt").write_text("years")
    before = everything(tmp_path)
    code, said = run(*fit(csv, tmp_path / "keep"))
    assert (code, everything(tmp_path)) == (2, before)
    assert "keep.checkpoint holds other files" in said


@pytest.mark.parametrize(
    "manifest",
    ["{}", '{"format": 1}', '{"name": "my web app", "manifest_version": 3}', "not json", "[]", "[" * 100_000],
)
def test_a_folder_with_a_foreign_manifest_stays(run, csv, tmp_path, manifest):
    web = tmp_path / "web"
    web.mkdir()
    (web / "manifest.json").write_text(manifest)
    before = everything(web)
    code, said = run(*fit(csv, web))
    assert (code, everything(web)) == (2, before)
    assert "holds other files" in said


def test_a_folder_of_another_kind_stays(run, model):
    before = everything(model)
    code, said = run("export", model, "--out", model)
    assert (code, everything(model)) == (2, before)
    assert "holds a 'model', not a 'vectors'" in said


def test_what_somebody_put_into_our_folder_stays(run, csv, model):
    (model / "notes.txt").write_text("mine")
    before = everything(model)
    code, said = run(*fit(csv, model))
    assert (code, everything(model)) == (2, before)
    assert "'notes.txt'" in said


def test_only_folders_of_the_kind_are_removed(model, tmp_path):
    with pytest.raises(StoreError, match="holds a 'model'"):
        remove_folder(model, kind="checkpoint")
    assert model.is_dir()
    remove_folder(tmp_path / "nothing", kind="checkpoint")
    remove_folder(model, kind="model")
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_folder_is_kept(run, csv, model, tmp_path):
    link = tmp_path / "current"
    link.symlink_to(model)
    os.chmod(model, 0o750)
    assert run(*fit(csv, link))[0] == 0
    assert link.is_symlink()
    assert load_model(model).fitted_on.name == load_model(link).fitted_on.name == "d"
    assert stat.S_IMODE(model.stat().st_mode) == 0o750
    assert sorted(p.name for p in tmp_path.iterdir()) == ["current", "d.csv", "m"]


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "/tmp/x", "..", ".", "", "manifest.json", "tensors.safetensors", "a\0b"]
)
def test_more_files_have_plain_names(tmp_path, name):
    (tmp_path / "inner").mkdir()
    with pytest.raises(ConfigError, match="file"):
        make_model("itempop").fit(checkerboard(8)).save(tmp_path / "inner" / "m", files={name: b"x"})
    assert list(tmp_path.rglob("*")) == [tmp_path / "inner"]


@pytest.mark.parametrize("name", ["format", "kind", "manifest_sha256", "model", "config"])
def test_facts_do_not_replace_the_marker(tmp_path, name):
    with pytest.raises(ConfigError, match="meaning of its own"):
        make_model("itempop").fit(checkerboard(8)).save(tmp_path / "m", **{name: 1})
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- inputs


def test_no_input_is_an_output(run, csv, model, tmp_path):
    titles, link, twin = tmp_path / "t.csv", tmp_path / "link.csv", tmp_path / "twin.csv"
    titles.write_text("item,title\n1,One\n")
    users = tmp_path / "users.txt"
    users.write_text("0\n")
    link.symlink_to(csv)
    os.link(csv, twin)
    before = everything(tmp_path)
    out = tmp_path / "new"
    for command in (
        fit(csv, out, "--log", csv),
        fit(csv, out, "--log", link),
        fit(csv, out, "--log", twin),
        fit(link, out, "--log", csv),
        fit(csv, out, "--titles", titles, "--log", titles),
        fit(csv, out, "--log", out),
        fit(csv, out, "--log", out / "log.jsonl"),
        fit(csv, out, "--log", f"{out}.checkpoint"),
        fit(csv, csv),
        ("recommend", model, "--users", users, "--json", users),
        ("recommend", model, "--user", "0", "--json", model / "manifest.json"),
        ("recommend", model, "--user", "0", "--out", model / "recs.csv"),
        ("evaluate", csv, "--model", "itempop", "--json", csv),
        ("compare", csv, "--models", "itempop", "--json", twin),
        ("tune", csv, "--model", "itempop", "--out", csv),
        ("tune", csv, "--model", "itempop", "--out", out, "--json", out),
        ("update", model, csv, "--out", csv),
    ):
        code, said = run(*command)
        assert code == 2, command
        assert said.startswith("error: "), command
        assert everything(tmp_path) == before, command


def test_folders_that_are_added_to_may_hold_other_outputs(tmp_path):
    place, out = tmp_path / "place", tmp_path / "place" / "m"
    out.mkdir(parents=True)
    check_outputs({"--out": out, "--tensorboard": place}, {}, shared=("--tensorboard",))
    for inside in (out, out / "board"):
        with pytest.raises(ConfigError, match="--tensorboard"):
            check_outputs({"--out": out, "--tensorboard": inside}, {}, shared=("--tensorboard",))
    check_outputs({"--out": out}, {"DIR": out})  # the same kind of folder may be replaced


def test_devices_can_be_written_to_by_all(tmp_path):
    check_outputs({"--json": "/dev/null", "--log": "/dev/null"}, {"DATA": "/dev/null"})
    check_outputs({"--json": tmp_path / "a", "--log": None}, {"DATA": tmp_path / "b", "DIR": None})


# ---------------------------------------------------------------------- not a regular file


def test_a_device_stays_a_device(run, model, tmp_path):
    for target in ("/dev/null", tmp_path / "null.csv"):
        if target != "/dev/null":
            target.symlink_to("/dev/null")
        assert run("recommend", model, "--user", "0", "--json", target)[0] == 0
    assert run("recommend", model, "--user", "0", "--out", tmp_path / "null.csv")[0] == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.readlink(tmp_path / "null.csv") == "/dev/null"


@pytest.mark.parametrize("suffix", [".json", ".csv", ".parquet", ".jsonl"])
def test_a_pipe_gets_what_a_file_would(run, model, tmp_path, suffix):
    option = "--json" if suffix == ".json" else "--out"
    pipe, file = tmp_path / f"pipe{suffix}", tmp_path / f"file{suffix}"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    assert run("recommend", model, "--user", "0", option, pipe)[0] == 0
    reader.join(10)
    assert run("recommend", model, "--user", "0", option, file)[0] == 0
    assert got == [file.read_bytes()]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_to_a_file_is_kept_and_so_are_its_rights(tmp_path):
    file, link = tmp_path / "deep" / "file", tmp_path / "link"
    file.parent.mkdir()
    file.write_text("old")
    file.chmod(0o600)
    link.symlink_to(file)
    write_file(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (tmp_path / "dangling").symlink_to(tmp_path / "deep" / "later")
    write_file(tmp_path / "dangling", "x")
    assert (tmp_path / "deep" / "later").read_text() == "x"


def test_standard_output_may_be_named(model, tmp_path):
    with (tmp_path / "out.txt").open("wb") as out:
        command = [*PUREREC, "recommend", model, "--user", "0", "--json", "/dev/stdout"]
        subprocess.run(command, stdout=out, check=True, env=os.environ)
    text = (tmp_path / "out.txt").read_text()
    assert '"score"' in text
    assert "rank" in text.rpartition("]")[2]  # the table, after the JSON


def test_the_log_may_be_a_device(run, csv, tmp_path):
    assert (
        run("fit", csv, "--model", "bpr", "--set", "epochs=2", "--out", tmp_path / "b", "--log", "/dev/null")[0] == 0
    )
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
