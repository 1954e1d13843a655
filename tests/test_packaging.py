"""What a user gets: the wheel, in an environment that has its requirements and nothing of the repository."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import purerec as pr
from clean_venv import CleanVenv, built, installed
from conftest import ROOT, need
from dockerfile_steps import follow

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    need("build")
    need("hatchling")
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def user(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> CleanVenv:
    """A machine after `pip install 'purerec[serve]'`."""
    return installed(packages[1], tmp_path_factory.mktemp("user"), frozenset({"serve"}))


def test_packages_have_what_they_should(packages: tuple[Path, Path]) -> None:
    sdist, wheel = packages
    files = {Path(ROOT, name).name for name in ("README.md", "CHANGELOG.md", "LICENSE", "Dockerfile")}
    with tarfile.open(sdist) as archive:
        assert files <= {Path(name).parts[1] for name in archive.getnames() if len(Path(name).parts) == 2}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.is_file()}
    assert {name for name in source if "__pycache__" not in name} <= names
    experiments = {path.name for path in (ROOT / "experiments").glob("*.toml")}
    assert experiments == {Path(name).name for name in names if re.fullmatch(r"purerec/_experiments/[^/]+", name)}
    assert not [name for name in names if name.split("/")[0] not in ("purerec", "purerec-0.1.0.dist-info")]


def test_the_core_needs_only_what_it_asks_for(packages: tuple[Path, Path], tmp_path: Path) -> None:
    core = installed(packages[1], tmp_path)
    code = f"import {', '.join(f'purerec.{name}' for name in _light_modules())}; print(purerec.__file__)"
    done = core.run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(core.place)
    done = core.run("purerec", "serve", "model")
    assert (done.returncode, "pip install 'purerec[serve]'" in done.stderr) == (2, True), done.stderr


def _light_modules() -> list[str]:
    """Modules that need no extra."""
    return ["cli.commands", "experiments.reproduce", "tuning.search", "output.report", "storage.ingest.ingest"]


def test_the_quick_start_runs_from_an_empty_folder(user: CleanVenv, ml_100k: pr.Interactions) -> None:
    """The commands for a user's own data at the top of the README, and its Python."""
    page = (ROOT / "README.md").read_text()
    users, items = ml_100k.user_idx[:5_000], ml_100k.item_idx[:5_000]
    rows = zip(ml_100k.users.ids[users], ml_100k.items.ids[items], strict=True)
    (user.work / "clicks.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in rows))
    quick_start = page[page.index("On your own data:") :]
    shell, code = (re.findall(rf"```{kind}\n(.*?)```", quick_start, re.DOTALL)[0] for kind in ("console", "python"))
    lines = re.findall(r"^\$ (purerec .*?)\s*(?:#.*)?$", shell, re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["compare", "fit", "recommend", "serve"]
    for line in lines[:-1]:
        done = user.run("sh", "-c", line)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    with _serving([*lines[-1].split(), "--port", "0"], user.work, user.env) as address:
        assert b"<title>" in urllib.request.urlopen(address).read()
    done = user.run("python", "-W", "error", "-c", code)
    assert (done.returncode, "P@5" in done.stdout) == (0, True), done.stderr


@contextmanager
def _serving(words: list[str], cwd: Path, env: dict[str, str]) -> Iterator[str]:
    """The address of a service."""
    process = subprocess.Popen(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), process.communicate()
        yield line.removeprefix("serving ").strip()
    finally:
        process.terminate()
        process.communicate()


def test_experiments_and_printed_numbers_come_along(user: CleanVenv) -> None:
    code = "from purerec.paper.printed import paper_row; print(paper_row('ml-100k', 'pure')['P@5'])"
    assert user.run("python", "-c", code).stdout.strip() == "0.3901"
    done = user.run("purerec", "reproduce", "table1", "--quick")
    assert (done.returncode, (user.work / "results").is_dir()) == (0, True), done.stderr


TYPED = """
import purerec as pr

data = pr.load("ml-100k")
split = pr.split(data)
model = pr.PURE(dim=8).fit(split.full_train, seed=0)
reveal_type(data)
reveal_type(split.train)
reveal_type(model)
reveal_type(pr.evaluate(model, split).metrics["P@5"])
reveal_type(model.recommend(["196"], k=10))
reveal_type(pr.compare(data).best)
pr.PURE(dim=8).fit("a path")
"""


def test_types_reach_the_user(user: CleanVenv) -> None:
    need("mypy")
    (user.work / "typed.py").write_text(TYPED)
    (user.work / "demo.py").write_text((ROOT / "examples" / "demo.py").read_text())
    words = ["--strict", "--python-executable", user.python, "--cache-dir", user.place / "mypy"]
    done = user.run(sys.executable, "-m", "mypy", *words, "typed.py", "demo.py")
    found = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert [kind.split(".")[-1] for kind in found] == [
        "Interactions",
        "Interactions",
        "PURE",
        "float",
        "DataFrame",
        "str",
    ]
    wrong = re.findall(r"^(\S+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert [(file, int(line)) for file, line, _ in wrong] == [("typed.py", len(TYPED.splitlines()))], done.stdout
    assert "Interactions" in wrong[0][2]


@pytest.mark.network
def test_the_dockerfile_serves_a_model(tmp_path: Path) -> None:
    """Its steps, in clean environments; there may be no container tool where the tests run."""
    last = follow(ROOT / "Dockerfile", tmp_path)
    (last.root / "clicks.csv").write_text("user,item\n" + "".join(f"u{n % 7},i{n % 11}\n" for n in range(77)))
    last.shell(f"cd {last.root} && purerec fit clicks.csv --model ials --set dim=2 --out /model")
    words = [*last.command(), "--port", "0"]
    with _serving(words, last.cwd, last.environment) as address:
        host, _, port = address.rpartition(":")
        assert host == "http://0.0.0.0"
        last.shell(last.noted["HEALTHCHECK"].removeprefix("CMD ").replace("8000", port))
