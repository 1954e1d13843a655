"""All models by name. The registry is literal, so that looking at it imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from purerec.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender
    from purerec.storage import Stored

REGISTRY: dict[str, tuple[str, str]] = {
    "itempop": ("purerec.models.itempop", "ItemPop"),
    "slopeone": ("purerec.models.slopeone", "SlopeOne"),
    "coclustering": ("purerec.models.coclustering", "CoClustering"),
    "svd": ("purerec.models.svd", "SVD"),
    "nmf": ("purerec.models.nmf", "NMF"),
    "pmf": ("purerec.models.pmf", "PMF"),
    "ease": ("purerec.models.ease", "EASE"),
    "ials": ("purerec.models.ials", "IALS"),
    "itemknn": ("purerec.models.itemknn", "ItemKNN"),
    "bpr": ("purerec.models.bpr", "BPR"),
    "lambdafm": ("purerec.models.lambdafm", "LambdaFM"),
    "graphgan": ("purerec.models.graphgan", "GraphGAN"),
    "irgan": ("purerec.models.irgan", "IRGAN"),
    "cfgan": ("purerec.models.cfgan", "CFGAN"),
    "multvae": ("purerec.models.multvae", "MultVAE"),
    "gmf": ("purerec.models.gmf", "GMF"),
    "pugmf": ("purerec.models.pugmf", "PUGMF"),
    "pure": ("purerec.models.pure", "PURE"),
}
"""name -> (module, class)"""


def model_class(name: str) -> type[Recommender]:
    """The class of a model by its name at the command line."""
    if name not in REGISTRY:
        raise ConfigError(f"there is no model {name!r}; there are {', '.join(REGISTRY)}")
    module, cls = REGISTRY[name]
    found: type[Recommender] = getattr(import_module(module), cls)
    return found


def make_model(name: str, **settings: Any) -> Recommender:
    """An unfitted model by name and settings."""
    return model_class(name)(**settings)


def settings_it_has(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings meant for several models, those that this one has."""
    known = model_class(name).config_class.model_fields
    return {key: value for key, value in given.items() if key in known}


def settings_for_each(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings given to several models: each gets those that it has, and one of them must have each."""
    found = {name: dict(given) if len(names) == 1 else settings_it_has(name, given) for name in names}
    for name, settings in found.items():
        make_model(name, **settings)  # a wrong value is an error before anything is fitted
    for setting in given:
        if not any(setting in settings for settings in found.values()):
            raise ConfigError(f"none of {', '.join(names)} has a setting {setting!r}")
    return found


def load_model(path: str | os.PathLike[str]) -> Recommender:
    """Read a model folder that `Recommender.save` wrote."""
    from purerec import storage

    return restore_model(storage.read_folder(path, kind="model"), os.fspath(path))


def restore_model(stored: Stored, where: str) -> Recommender:
    """A model from what was found in its folder; `where` names the folder in errors."""
    name = stored.manifest.get("model")
    if not isinstance(name, str) or name not in REGISTRY:
        raise StoreError(f"{where} holds a model {name!r} that this version does not know: upgrade purerec")
    from purerec.models.contract.model_folder import restore

    return restore(model_class(name), stored, where)
