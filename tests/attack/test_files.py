"""Nothing that is not purerec's own is deleted or overwritten, and what cannot be written is said in one line."""

import contextlib
import os
import resource
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from conftest import PUREREC, checkerboard, purerec
from purerec.cli import commands
from purerec.errors import ConfigError, StoreError
from purerec.models.registry import load_model, make_model
from purerec.output.tables import write_parts
from purerec.storage import check_outputs, locked, remove_folder, write_file


@pytest.fixture
def run(monkeypatch, capsys):
    """The command line, in this process: its exit code and what it said on standard error."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["purerec", *map(os.fspath, args)])
        capsys.readouterr()
        code = commands.run()
        said = capsys.readouterr().err
        assert "internal error" not in said
        return code, said

    return run


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "d.csv"
    rows = [f"{u},{i}" for u in range(8) for i in range(8) if (u + i) % 2]
    path.write_text("\n".join(["user,item", *rows]) + "\n")
    return path


@pytest.fixture
def model(tmp_path):
    return make_model("itempop").fit(checkerboard(8)).save(tmp_path / "m")


def everything(folder):
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def fit(csv, out, *more):
    return "fit", csv, "--model", "itempop", "--out", out, *more


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
        ("recommend", model, "--users-file", users, "--json", users),
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
    check_outputs({"--out": out}, {"DIR": out})  # of the same kind, it may be replaced


def test_devices_can_be_written_to_by_all(tmp_path):
    check_outputs({"--json": "/dev/null", "--log": "/dev/null"}, {"DATA": "/dev/null"})
    check_outputs({"--json": tmp_path / "a", "--log": None}, {"DATA": tmp_path / "b", "DIR": None})


# ---------------------------------------------------------------------- what is no regular file


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


# ---------------------------------------------------------------------- two at once


def test_two_updates_at_once(run, csv, model):
    with locked(model):
        before = everything(model)
        code, said = run("update", model, csv, "--out", model)
        assert (code, everything(model)) == (2, before)
        assert "another purerec process is writing" in said
        assert run(*fit(csv, model))[0] == 2
    assert run("update", model, csv, "--out", model)[0] == 0
    assert load_model(model).fitted_on.updated.times == 1


HOLD = """
import sys, time
from purerec.storage import locked
with locked(sys.argv[1]):
    print(flush=True)
    time.sleep(99)
"""


def test_the_lock_of_a_dead_process_is_nobodys(run, csv, model):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, model], stdout=subprocess.PIPE, env=os.environ)
    holder.stdout.readline()
    assert run("update", model, csv, "--out", model)[0] == 2
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert run("update", model, csv, "--out", model)[0] == 0
    assert sorted(p.name for p in model.parent.iterdir()) == ["d.csv", "m"]


# ---------------------------------------------------------------------- disks that are full, names that are odd


@contextlib.contextmanager
def small_files(size):
    """No file may get more bytes than this: what a full disk looks like to whoever writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disks(run, csv, tmp_path):
    def commands(place):
        bpr = ("fit", csv, "--model", "bpr", "--set", "epochs=60", "--out", place / "x")
        return (
            ("export", place / "big", "--out", place / "v"),
            ("recommend", place / "big", "--all", "-k", "50", "--out", place / "r.csv"),
            ("recommend", place / "big", "--all", "-k", "50", "--out", place / "r.parquet"),
            ("recommend", place / "big", "--user", "0", "-k", "50", "--json", place / "r.json"),
            ("update", place / "big", csv, "--out", place / "big"),
            (*bpr, "--log", place / "log.jsonl"),
        )

    for name in ("once", "full"):  # once where there is room, so that kernels are compiled and kept
        (tmp_path / name).mkdir()
        make_model("bpr", epochs=1, dim=64).fit(checkerboard(60)).save(tmp_path / name / "big")
    assert [run(*command)[0] for command in commands(tmp_path / "once")] == [0] * 6
    before = everything(tmp_path)
    for command in commands(tmp_path / "full"):
        with small_files(1500):
            code, said = run(*command)
        assert code == 2, (command, said)
        assert len(said.strip().splitlines()) == 1, said
        (tmp_path / "full" / "log.jsonl").unlink(missing_ok=True)  # is written line by line
        assert everything(tmp_path) == before, command


def test_a_full_device(run, model, tmp_path):
    (tmp_path / "full.csv").symlink_to("/dev/full")
    for option, target in (("--json", "/dev/full"), ("--out", tmp_path / "full.csv")):
        code, said = run("recommend", model, "--user", "0", option, target)
        assert code == 2
        assert "No space left" in said


def test_long_names(run, csv, model, tmp_path):
    longest = "x" * 255
    assert run(*fit(csv, tmp_path / ("y" * 244)))[0] == 0  # with room for .checkpoint
    assert run("export", tmp_path / ("y" * 244), "--out", tmp_path / longest)[0] == 0
    assert run("recommend", model, "--user", "0", "--out", tmp_path / ("x" * 251 + ".csv"))[0] == 0
    before = everything(tmp_path)
    for command in (
        fit(csv, tmp_path / (longest + "x")),
        fit(csv, tmp_path / "n", "--log", tmp_path / (longest + "x")),
        ("export", model, "--out", tmp_path / (longest + "x")),
        ("recommend", model, "--user", "0", "--json", tmp_path / (longest + "x")),
        ("recommend", model, "--user", "0", "--out", tmp_path / (longest + ".csv")),
    ):
        code, said = run(*command)
        assert code == 2
        assert "too long" in said
        assert everything(tmp_path) == before


def test_names_that_are_no_text(run, csv, tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    assert purerec(*fit(csv, odd), check=0).stdout
    for command in (
        ("recommend", odd, "--user", "0", "--json", odd + ".json"),
        ("export", odd, "--out", odd + "v"),
        ("recommend", odd, "--user", "0", "--out", odd + ".csv"),
        ("update", odd, csv, "--out", odd),
    ):
        assert run(*command)[0] == 0
    code, said = run("export", odd, "--out", odd)
    assert code == 2
    assert "holds a 'model'" in said


def test_folders_that_nobody_may_look_into(tmp_path, csv, model):
    """As another user, since root may look everywhere."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "m").mkdir()
    closed.chmod(0)
    readable = tmp_path / "readable"
    readable.mkdir()
    code = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from purerec.errors import PurerecError
from purerec.storage import check_target, locked, read_folder, write_file, write_folder, new_folder, check_outputs
from purerec.output.tables import check_target as check_table
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
closed, readable = Path({os.fspath(closed)!r}), Path({os.fspath(readable)!r})
def lock(path):
    with locked(path): pass
for path in (closed / "m", closed, readable / "m"):
    for use in (
        lambda p: check_target(p, kind="model") if p != readable / "m" else lock(p),
        lambda p: read_folder(p, kind="model"),
        lambda p: write_file(p / "x.csv", "x"),
        lambda p: check_table(p / "x.csv"),
        lambda p: write_folder(p, kind="model", manifest={{}}, tensors={{}}),
        lambda p: write_folder(p / "n", kind="model", manifest={{}}, tensors={{}}),
        lock if path != closed else lambda p: lock(p / "m"),
    ):
        try:
            use(path)
        except PurerecError as error:
            assert "\\n" not in str(error), error
        else:
            raise SystemExit(f"{{path}} went through")
"""
    for folder in (tmp_path, *tmp_path.parents):
        if not os.stat(folder).st_mode & stat.S_IXOTH and folder != tmp_path.parents[-1]:
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH)
        if folder == tmp_path.parents[1]:
            break
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    finally:
        closed.chmod(0o700)
    assert done.returncode == 0, done.stdout + done.stderr


def test_parts_that_fail_are_not_taken_for_a_full_disk(tmp_path):
    def parts():
        raise StoreError("broken")
        yield

    for suffix in ("csv", "parquet"):
        with pytest.raises(StoreError, match="broken"):
            write_parts(tmp_path / f"r.{suffix}", parts())
    assert list(tmp_path.iterdir()) == []


def test_a_split_is_written_like_any_folder(tmp_path):
    from purerec.data.splits import split
    from purerec.storage import load_split, save_split

    parts = split(checkerboard(8), "ratio")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match="holds other files"):
        save_split(parts, tmp_path / "s")
    assert np.array_equal(load_split(save_split(parts, tmp_path / "t")).test.user_idx, parts.test.user_idx)
