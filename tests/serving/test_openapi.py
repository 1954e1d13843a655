"""Schemathesis: valid and invalid requests generated from the OpenAPI schema, against the running service."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import need
from serving.conftest import Served

need("schemathesis")

LISTS = ("/v1/recommend", "/v1/users/{id}/recommendations")
_EXCEPT_LISTS = "\n".join(
    f'[[operations]]\ninclude-path = "{path}"\nchecks.positive_data_acceptance.enabled = false' for path in LISTS
)
PEOPLE, K = 4, 125
"""Their product may be requested with any rules"""


def schemathesis(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "schemathesis.cli", "run", *words]
    options = ["--phases", "examples,coverage,fuzzing", "--max-examples", "25"]
    done = subprocess.run(
        [*command, *options, "--seed", "1", "--warnings", "off", "--no-color"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def test_service_keeps_to_its_description(served: Served, tmp_path: Path):
    """Documented statuses, types and schemas only; valid requests accepted, invalid ones refused; never a 500.

    For lists with rules a schema cannot say which are valid: it knows neither the columns nor a bound on a product.
    """
    (tmp_path / "schemathesis.toml").write_text(_EXCEPT_LISTS)
    assert "12 selected / 12 total" in schemathesis(tmp_path, served.url + "/openapi.json")


def test_right_requests_for_lists_are_accepted(served: Served, tmp_path: Path):
    """With what a schema cannot express added: ids and columns of this model, and a product within bounds."""
    description = served.get("/openapi.json").json()
    conditions = {"enum": ["year>=1990", "genre=Sea|Star", "genre!=Ship", "in_stock", "!in_stock"]}
    fields = description["components"]["schemas"]["RecommendRequest"]["properties"]
    fields["where"]["items"] = conditions
    fields["attributes"]["items"] = {"enum": ["genre", "year", "in_stock"]}
    cap = fields["at_most"]["additionalProperties"]
    fields["at_most"] |= {"properties": {"genre": cap, "year": cap}, "additionalProperties": False}
    fields["at_most"].pop("propertyNames")
    people = {"enum": ["u3", "196", "a/b c", "Jürgen?"]}
    fields["users"]["anyOf"][0] |= {"items": people, "maxItems": PEOPLE}
    fields["items"]["anyOf"][0]["items"] = {"enum": ["i2", "50", "x/y"]}
    fields["k"]["maximum"] = K
    of_address: dict[str, Any] = {
        parameter["name"]: parameter["schema"] for parameter in description["paths"][LISTS[1]]["get"]["parameters"]
    }
    of_address["id"] |= people
    of_address["where"]["items"] = conditions
    of_address["at_most"]["items"] = {"enum": ["genre=3", "year=1"]}
    description["paths"] = {path: description["paths"][path] for path in LISTS}
    (tmp_path / "schemathesis.toml").write_text('[checks.positive_data_acceptance]\nexpected-statuses = ["200"]')
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(description))
    said = schemathesis(
        tmp_path, str(file), "--url", served.url, "--mode", "positive", "--checks", "positive_data_acceptance"
    )
    assert "2 selected / 2 total" in said
