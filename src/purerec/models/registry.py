"""All models by name. The registry is a literal, so that reading it imports nothing heavy.

A custom model is known by its name after `register`, if an installed package provides it as an entry point of the
group `purerec.models`, or after it has been given once as `module:Class`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from purerec.data.plugins.named import import_first, import_object, installed_names, installed_object, is_path
from purerec.errors import ConfigError, StoreError, guess

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender
    from purerec.storage import Stored

AnyClass = TypeVar("AnyClass", bound=type)

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

SHARED = ("gmf", "pugmf", "pure", "ials", "ease")
"""Models that several processes can fit together"""

GROUP = "purerec.models"
"""Group of entry points in installed packages"""

_OWN: dict[str, type[Recommender]] = {}
"""Custom models that have been used so far"""


def register(model: AnyClass) -> AnyClass:
    """Register your own class under its name, for all functions and commands; also a decorator.

    The class needs `fit(train)` and `score(user_idx)`, or derives from `Recommender`; `purerec.models.contract.own`
    has the details.
    """
    _register(model)
    return model


def _register(model: Any) -> str:
    from purerec.models.contract.model_folder import class_path
    from purerec.models.contract.own import as_model

    made = as_model(model)
    name = made.name
    known = _OWN.get(name)
    # Rerunning a notebook cell defines its class again.
    if name in REGISTRY or (known is not None and class_path(known) != class_path(made)):
        other = "one of purerec's models" if known is None else f"that of {class_path(known)}"
        raise ConfigError(f"the name {name!r} of {class_path(made)} is taken: it is {other}; choose another `name`")
    _OWN[name] = made
    return name


def model_name(model: str | type) -> str:
    """The name of a model that is given by its name, as `module:Class`, or as a class."""
    if isinstance(model, str):
        return _register(import_object(model)) if is_path(model) else model
    place = (getattr(model, "__module__", ""), getattr(model, "__name__", ""))  # of anything, until it is registered
    return next((name for name, known in REGISTRY.items() if known == place), None) or _register(model)


def model_class(name: str) -> type[Recommender]:
    """The class of a model by its name on the command line."""
    name = model_name(name)
    if name in REGISTRY:
        module, cls = REGISTRY[name]
        found: type[Recommender] = getattr(import_module(module), cls)
        return found
    own = _own_class(name)
    if own is None:
        others = [*_OWN, *(n for n in installed_names(GROUP) if n not in _OWN)]
        known = ", ".join([*REGISTRY, *others])
        raise ConfigError(f"unknown model {name!r}; {guess(name, [*REGISTRY, *others])}choose from {known}")
    return own


def _own_class(name: str) -> type[Recommender] | None:
    """The custom model of this name, if it is registered or installed."""
    if name not in _OWN:
        register_imports()
    if name not in _OWN:
        offered = installed_object(GROUP, name)
        if offered is not None:
            given = _register(offered)
            if given != name:
                raise ConfigError(
                    f"an installed package offers the model {given!r} as {name!r}; it has to use one name"
                )
    return _OWN.get(name)


def register_imports() -> None:
    """Import what PUREREC_IMPORT or --import names, and register any classes."""
    for path in import_first():
        _register(import_object(path))


def other_names() -> list[str]:
    """The names of registered or installed models that are not purerec's own."""
    register_imports()
    return sorted({*_OWN, *installed_names(GROUP)})


def make_model(name: str, **settings: Any) -> Recommender:
    """An unfitted model by name and settings."""
    return model_class(name)(**settings)


def settings_it_has(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given settings that this model has."""
    known = model_class(name).config_class.model_fields
    return {key: value for key, value in given.items() if key in known}


def settings_for_each(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Distribute settings over several models: each gets those it has, and each must belong to at least one."""
    found = {name: dict(given) if len(names) == 1 else settings_it_has(name, given) for name in names}
    for name, settings in found.items():
        make_model(name, **settings)  # reports a wrong value before anything is fitted
    for setting in given:
        if not any(setting in settings for settings in found.values()):
            raise ConfigError(f"none of {', '.join(names)} has a setting {setting!r}")
    return found


def load_model(path: str | os.PathLike[str]) -> Recommender:
    """Read a model folder that `Recommender.save` wrote."""
    from purerec import storage

    return restore_model(storage.read_folder(path, kind="model"), os.fspath(path))


def restore_model(stored: Stored, where: str) -> Recommender:
    """A model from the content of its folder; `where` names the folder in errors.

    The import path in the folder is not followed: it would run code chosen by the author of the folder.
    """
    name, path = stored.manifest.get("model"), stored.manifest.get("class")
    known = isinstance(name, str) and not is_path(name) and (name in REGISTRY or _own_class(name) is not None)
    if not known and isinstance(path, str):
        module, _, cls = path.partition(":")
        raise StoreError(
            f"{where} holds a model {name!r}, which is not part of purerec and not registered here",
            f"if you trust it, run `from {module} import {cls}` and `purerec.register({cls})` first",
            command=f"if you trust it, add --import {path}, or install the package that has it",
        )
    if not known:
        raise StoreError(f"{where} holds a model {name!r} that this version does not know: upgrade purerec")
    from purerec.models.contract.model_folder import restore

    return restore(model_class(str(name)), stored, where)
