"""An environment with a wheel and its requirements, and nothing else: made in a second, without a network.

The packages that its metadata requires, directly or not, are linked from the environment of the tests. What is
imported but not required is missing, as on a user's machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class CleanVenv:
    """A virtual environment, and an empty folder to work in."""

    place: Path
    work: Path

    @property
    def bin(self) -> Path:
        return self.place / "bin"

    @property
    def python(self) -> Path:
        return self.bin / "python"

    @property
    def env(self) -> dict[str, str]:
        """A user's environment after `activate`; nothing points to the repository."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_"))}
        return kept | {"PATH": f"{self.bin}{os.pathsep}{kept['PATH']}", "PUREREC_CACHE": str(self.place / "cache")}

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in words], cwd=self.work, env=self.env, capture_output=True, text=True, check=False
        )


def built(target: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ROOT]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(target.glob("*.tar.gz")), next(target.glob("*.whl"))


def installed(wheel: Path, place: Path, extras: frozenset[str] = frozenset()) -> CleanVenv:
    """A new environment with a wheel and what it needs."""
    venv.create(place / "venv", symlinks=True)
    work = place / "work"
    work.mkdir()
    made = CleanVenv(place / "venv", work)
    words = ["-m", "pip", "--python", made.python, "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, *map(str, words)], check=True)
    packages = next(made.place.glob("lib/python*/site-packages"))
    asked = next(iter(distributions(path=[str(packages)])))
    for found in _needed(asked, extras):
        _link(found, packages)
    give_pip(made.place)  # users have it, and it fetches data
    return made


def give_pip(place: Path) -> None:
    """Link pip; `python -m venv` would install it, which takes seconds."""
    _link(distribution("pip"), next(place.glob("lib/python*/site-packages")))
    program = place / "bin" / "pip"
    program.write_text(f"#!{place}/bin/python\nfrom pip._internal.cli.main import main\nraise SystemExit(main())\n")
    program.chmod(0o755)


def _link(found: Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
        source = Path(str(found.locate_file(name)))
        if source.exists() and not (packages / name).exists():
            (packages / name).symlink_to(source)


def _needed(first: Distribution, extras: frozenset[str]) -> list[Distribution]:
    """What a distribution requires, directly or not."""
    found: dict[str, Distribution] = {}
    ahead = [(first, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while ahead:
        one, chosen = ahead.pop()
        for text in one.requires or []:
            need = Requirement(text)
            applies = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in {"", *chosen})
            key = canonicalize_name(need.name), frozenset(need.extras)
            if applies and key not in seen:
                seen.add(key)
                found[key[0]] = distribution(need.name)
                ahead.append((found[key[0]], key[1]))
    return list(found.values())
