"""Schemathesis: requests made from the OpenAPI, right ones and wrong ones, against the running service."""

import subprocess
import sys
from pathlib import Path

from conftest import need
from serving.conftest import Served

need("schemathesis")


def test_service_keeps_to_its_description(served: Served, tmp_path: Path):
    """Documented statuses, types and schemas only; wrong requests refused; never a 500.

    That right requests are accepted is not asked: a bound on a product (users times places) has no place in a schema.
    """
    command = [sys.executable, "-m", "schemathesis.cli", "run", served.url + "/openapi.json"]
    options = ["--checks", "all", "--phases", "examples,coverage,fuzzing", "--max-examples", "25"]
    options += ["--exclude-checks", "positive_data_acceptance"]
    done = subprocess.run(
        [*command, *options, "--seed", "1", "--warnings", "off", "--no-color"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "12 selected / 12 total" in done.stdout
