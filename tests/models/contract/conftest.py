"""Every model, fitted on a small log."""

import pytest

from models.contract.small import small_log
from purerec.models.registry import make_model


@pytest.fixture(scope="session")
def log():
    return small_log()


@pytest.fixture(scope="session")
def fitted(log):
    """By name, each fitted once: not to be changed."""
    cache = {}

    def get(name):
        if name not in cache:
            quick = {"epochs": 5, "pretrain_epochs": 4}
            quick = {k: v for k, v in quick.items() if k in make_model(name).config_class.model_fields}
            cache[name] = make_model(name, **quick).fit(log, seed=0)
        return cache[name]

    return get
