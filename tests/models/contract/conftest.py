"""Every model, fitted on a small log."""

import pytest

from models.contract.small import small_log
from purerec.models.registry import make_model


@pytest.fixture(scope="session")
def log():
    return small_log()


@pytest.fixture(scope="session")
def fitted(log):
    """Fitted models by name, each fitted once: do not change them."""
    cache = {}

    def get(name):
        if name not in cache:
            quick = {"epochs": 5, "pretrain_epochs": 4}
            quick = {k: v for k, v in quick.items() if k in make_model(name).config_class.model_fields}
            cache[name] = make_model(name, **quick).fit(log, seed=0)
        return cache[name]

    return get
