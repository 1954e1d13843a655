"""The steps of a Dockerfile, run without a container: each stage is a folder and a new virtual environment.

Paths that a container would have at its root are below the stage's folder. What needs a container is only
recorded: the base image, the user, the open port.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from dataclasses import dataclass, field
from pathlib import Path

from clean_venv import give_pip

PLACES = r"(?<![\w./])/(?=(?:source|wheels|model|tmp/purerec)\b)"
"""Where a path of the image begins in the text of a step"""


@dataclass
class Stage:
    root: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    noted: dict[str, str] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        return self.root / "venv" / "bin"

    def here(self, text: str) -> str:
        """A step with the paths of the image moved below the stage's folder."""
        return re.sub(PLACES, f"{self.root}/", text)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a step: from the tests' environment, only where packages come from."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PUREREC", "COV_"))
        }
        # Compile packages when they are imported, not all of them when they are installed.
        own = {"PATH": f"{self.bin}{os.pathsep}{kept['PATH']}", "PIP_COMPILE": "0"}
        return kept | self.env | own

    def shell(self, step: str) -> None:
        done = subprocess.run(
            ["sh", "-c", self.here(step)],
            cwd=self.cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{step}\n{done.stdout}{done.stderr}"

    def command(self) -> list[str]:
        """What the container would run."""
        words = json.loads(self.noted["ENTRYPOINT"]) + json.loads(self.noted["CMD"])
        return [self.here(word) for word in words]


def follow(dockerfile: Path, place: Path) -> Stage:
    """Run all steps, with the Dockerfile's folder as the context; return the last stage."""
    stages: dict[str, Stage] = {}
    text = re.sub(r"\\\n\s*", " ", dockerfile.read_text())
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        verb, _, rest = line.partition(" ")
        if verb == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            stage = stages[name] = Stage(place / name, place / name)
            venv.create(stage.root / "venv")
            give_pip(stage.root / "venv")
        elif verb == "WORKDIR":
            stage.cwd = Path(stage.here(rest))
            stage.cwd.mkdir(parents=True, exist_ok=True)
        elif verb == "COPY":
            _copy(rest.split(), dockerfile.parent, stages, stage)
        elif verb == "RUN":
            stage.shell(rest)
        elif verb == "ENV":
            stage.env |= {name: stage.here(value) for name, value in (word.split("=", 1) for word in rest.split())}
        else:
            assert verb in ("USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"), f"no such step here: {line}"
            stage.noted[verb] = rest
    return stage


def _copy(words: list[str], context: Path, stages: dict[str, Stage], stage: Stage) -> None:
    *sources, target = words
    if sources[0].startswith("--from="):
        origin = stages[sources.pop(0).partition("=")[2]]
        (source,) = sources
        shutil.copytree(origin.here(source), stage.here(target), dirs_exist_ok=True)
        return
    for source in sources:
        for name in _context(context) if source == "." else [source]:
            into = stage.cwd / name if source == "." else Path(stage.here(target))
            if (context / name).is_dir():
                shutil.copytree(context / name, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(context / name, into)


def _context(context: Path) -> list[str]:
    """What .dockerignore leaves: it excludes everything, and then lists exceptions."""
    everything, *let_in = (context / ".dockerignore").read_text().split()
    assert everything == "**"
    assert all(name.startswith("!") for name in let_in)
    return [name.removeprefix("!") for name in let_in]
