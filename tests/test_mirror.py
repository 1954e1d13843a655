"""Tests mirror the source tree: a module's tests are where its name says."""

from pathlib import Path

import purerec
from conftest import ROOT

SOURCE, TESTS = Path(purerec.__file__).parent, ROOT / "tests"

CROSS_CUTTING = {
    "cli/test_common.py": "what every command has, and completion in the shell",
    "cli/test_given_parts.py": "the options --train, --test and --valid, of several commands",
    "cli/test_metrics_options.py": "the options --metrics and --metric, of several commands",
    "cli/test_pages.py": "the commands of README and docs, run",
    "cli/test_two_hosts.py": "torchrun on two hosts, and the link between them",
    "engines/pure/test_parity.py": "two engines, one meaning",
    "evaluation/test_more_metrics.py": "metrics of whole lists, beside those of ranks in test_metrics",
    "paper/test_softmax_risk.py": "the softmax loss, beside the risks of test_risks",
    "serving/test_rules.py": "rules of a list, over HTTP",
    "models/contract/test_indices.py": "indices and ids that are none, whoever is asked",
    "models/contract/test_low_ratings.py": "pairs rated too low to be positives: fitting, lists, folders, updates",
    "models/test_algorithm.py": "Algorithm 1 at the level of the model",
    "serving/test_endpoints.py": "the service as a client sees it",
    "serving/test_openapi.py": "its description",
    "serving/test_security.py": "hosts, tokens, origins",
    "serving/test_wrong_requests.py": "what it refuses",
    "test_docs.py": "README and docs",
    "test_duplicates.py": "no two places share six lines",
    "test_examples.py": "the examples run",
    "test_extending.py": "how to add something, done",
    "test_extending_docs.py": "docs/extending.md, run",
    "test_mirror.py": "this file",
    "test_package.py": "the package as a whole",
    "test_packaging.py": "sdist, wheel and Dockerfile, as a user gets them",
    "test_site.py": "the documentation as a site",
    "test_tutorial.py": "docs/tutorial.md, run",
    "test_walks.py": "how many files a call goes through",
}
"""Tests that belong to no single module, and what they are about"""
OF_THE_WHOLE = ("attack", "browser", "quality")
"""Folders that attack, look at or measure the whole package"""


def test_every_test_file_has_a_namesake_in_the_source():
    for path in TESTS.rglob("test_*.py"):
        name = path.relative_to(TESTS)
        if name.parts[0] in OF_THE_WHOLE or str(name) in CROSS_CUTTING:
            continue
        module = SOURCE / name.parent / name.name.removeprefix("test_")
        assert module.exists(), f"tests/{name} has no namesake: move it, or say in CROSS_CUTTING what it is about"


def test_the_list_of_exceptions_is_current():
    for name in CROSS_CUTTING:
        assert (TESTS / name).exists(), f"tests/{name} is gone"
        assert not (SOURCE / Path(name).parent / Path(name).name.removeprefix("test_")).exists()


def test_folders_of_tests_are_folders_of_the_source():
    for folder in {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}:
        assert folder.parts[:1] in [(name,) for name in OF_THE_WHOLE] or (SOURCE / folder).is_dir()
