"""Schemathesis: requests made from the OpenAPI, right ones and wrong ones, against the running service."""

import subprocess
import sys
from pathlib import Path

from conftest import need
from serving.conftest import Served

need("schemathesis")

_EXCEPT_LISTS = """
[[operations]]
include-path = "/v1/recommend"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-path = "/v1/users/{id}/recommendations"
checks.positive_data_acceptance.enabled = false
"""


def test_service_keeps_to_its_description(served: Served, tmp_path: Path):
    """Documented statuses, types and schemas only; right requests accepted, wrong ones refused; never a 500.

    Of lists with rules a schema cannot say which are right: it knows neither the columns nor a bound on a product.
    """
    (tmp_path / "schemathesis.toml").write_text(_EXCEPT_LISTS)
    command = [sys.executable, "-m", "schemathesis.cli", "run", served.url + "/openapi.json"]
    options = ["--phases", "examples,coverage,fuzzing", "--max-examples", "25"]
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
