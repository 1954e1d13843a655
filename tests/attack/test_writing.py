"""Two writers at once, full disks, odd names: nothing is lost, and one line says why."""

import contextlib
import os
import resource
import stat
import subprocess
import sys

import numpy as np
import pytest

from attack.files import everything, fit
from conftest import checkerboard, purerec
from purerec.errors import StoreError
from purerec.models.registry import load_model, make_model
from purerec.output.tables import write_parts
from purerec.storage import locked


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


# ---------------------------------------------------------------------- full disks, odd names


@contextlib.contextmanager
def small_files(size):
    """Limit the size of files: to a writer, this looks like a full disk."""
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

    for name in ("once", "full"):  # first with enough room, so that kernels are compiled and cached
        (tmp_path / name).mkdir()
        make_model("bpr", epochs=1, dim=64).fit(checkerboard(60)).save(tmp_path / name / "big")
    assert [run(*command)[0] for command in commands(tmp_path / "once")] == [0] * 6
    before = everything(tmp_path)
    for command in commands(tmp_path / "full"):
        with small_files(1500):
            code, said = run(*command)
        assert code == 2, (command, said)
        assert len(said.strip().splitlines()) == 1, said
        (tmp_path / "full" / "log.jsonl").unlink(missing_ok=True)  # written line by line
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
    """As another user, since root may read everything."""
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
