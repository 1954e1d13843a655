"""Run the commands of docs/tutorial.md and store their output in results/tutorial.json: `python docs/tutorial.py`.

`docs/render.py` then writes it into the page. This fits all models and takes a few minutes on two cores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from purerec.experiments.provenance import write_results

ROOT = Path(__file__).parents[1]
SERVICE = "http://127.0.0.1:8000"
PICTURE = "comparison.svg"

STEPS = {
    "show": "purerec data show gowalla",
    "compare": f"purerec compare gowalla --plot {PICTURE}",
    "fit": "purerec fit gowalla --model pure --out places",
    "recommend": "purerec recommend places --user 196 -k 5",
    "history": "purerec recommend places --history 50,181 -k 5 --explain",
    "similar": "python -c \"import purerec as pr; print(pr.load_model('places').similar_items(50, k=3))\"",
    "serve": "purerec serve places",
    "curl_user": f"curl '{SERVICE}/v1/users/196/recommendations?k=2'",
    "curl_history": f'curl {SERVICE}/v1/recommend --json \'{{"history": [50, 181], "k": 2}}\'',
    "curl_similar": f"curl '{SERVICE}/v1/items/50/similar?k=2'",
}
"""What a new user types, in this order; the service keeps running for the commands after it"""


def run(folder: Path, as_here: Callable[[str], str] = lambda command: command) -> dict[str, str]:
    """The output of each command, both streams, when all are run in a folder; `as_here` may change them."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {
        "COLUMNS": "100",
        "POLARS_FMT_TABLE_HIDE_DATAFRAME_SHAPE_INFORMATION": "1",
    }
    said: dict[str, str] = {}
    service = None
    try:
        for name, command in STEPS.items():
            words = as_here(command)
            if name == "serve":
                with (folder / "service.log").open("w") as log:
                    service = subprocess.Popen(words.split(), cwd=folder, env=environment, stdout=log, stderr=log)
                said[name] = _first_line(folder / "service.log", service)
                continue
            done = subprocess.run(
                ["sh", "-c", words.replace("curl ", "curl -sS ")],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{words}\n{done.stdout}")
            said[name] = done.stdout.rstrip()
    finally:
        if service is not None:
            service.terminate()
            service.wait(30)
    return said


def _first_line(log: Path, service: subprocess.Popen[bytes]) -> str:
    """The address that a service prints when it is ready."""
    while service.poll() is None:
        told = [line for line in log.read_text().splitlines() if line.startswith("serving ")]
        if told:
            return told[0]
        time.sleep(0.1)
    raise SystemExit(log.read_text())


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        busy = os.getloadavg()[0]
        said = run(Path(place))
        shutil.copy(Path(place, PICTURE), ROOT / "docs" / "pictures" / PICTURE)
    steps = {name: {"command": STEPS[name], "said": text} for name, text in said.items()}
    target = ROOT / "results" / "tutorial.json"
    write_results(target, steps | {"waiting": max(0.0, busy - (os.cpu_count() or 1))})
    print(f"written: {target.relative_to(ROOT)}, docs/pictures/{PICTURE}; now: make docs")


if __name__ == "__main__":
    main()
