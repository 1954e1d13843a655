"""A fitted model as a folder: what is written, and how it is checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from purerec import storage
from purerec.data.pairs import Csr
from purerec.data.plugins.named import import_path
from purerec.errors import ConfigError, StoreError, first_problem
from purerec.evaluation.metrics import parse
from purerec.models.contract.config import make_config
from purerec.models.contract.fitted_on import FittedOn, Known
from purerec.models.contract.trained import Trained
from purerec.storage.paths import AnyPath
from purerec.types import Array

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender


AnyModel = TypeVar("AnyModel", bound="Recommender")
_CURVE: TypeAdapter[list[dict[str, float]]] = TypeAdapter(list[dict[str, int | float]])


def write(model: Recommender, path: AnyPath, *, files: Mapping[str, bytes] | None, facts: Mapping[str, Any]) -> Path:
    """See `Recommender.save`."""
    own: dict[str, Any] = {
        "model": model.name,
        "config": model.config.model_dump(mode="json"),
        "fitted_on": model.fitted_on.to_dict(),
    }
    if (imported_from := class_path(type(model))) is not None:
        own["class"] = imported_from
    if isinstance(model.learned, Trained) and model.learned.curve is not None:
        own["history"] = model.learned.curve
    if taken := own.keys() & facts:
        raise ConfigError(f"{min(taken)!r} has a meaning of its own in a manifest; give that fact another name")
    tensors = {f"model.{name}": array for name, array in model._state().items()}
    tensors |= storage.pack_vocabulary(model.users) | storage.pack_vocabulary(model.items)
    tensors |= _packed("seen", model.seen)
    if (touched := model.known.touched) is not model.seen:
        tensors |= _packed("touched", touched)
    if isinstance(model.learned, Trained) and model.learned.stopped_by is not None:
        tensors |= _packed("stopped_by", model.learned.stopped_by)
    if model.labels is not None:
        tensors |= storage.pack_strings("item.labels", model.labels)
    if model.item_table is not None:
        tensors |= storage.pack_item_table(model.item_table)
    manifest = {**own, **facts}
    return storage.write_folder(path, kind="model", manifest=manifest, tensors=tensors, files=files)


def class_path(model: type[Recommender]) -> str | None:
    """`module:Class` of a model that is not purerec's own."""
    own = getattr(model, "own_class", model)
    return None if own.__module__.startswith("purerec.") else import_path(own)


def restore(kind: type[AnyModel], stored: storage.Stored, where: str) -> AnyModel:
    """A model from the content of a folder; `where` names the folder in errors."""
    try:
        model = kind(make_config(kind, _with_known_metric(kind._upgraded(stored.manifest["config"]))))
        _take(model, stored)
    except (KeyError, TypeError, ValueError, AttributeError, StoreError) as error:
        raise StoreError(f"{where}: the folder does not fit this version of {kind.name} ({error})") from None
    return model


def _with_known_metric(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings without a custom metric that is not registered here: it only decided when to stop fitting."""
    try:
        parse(str(settings.get("metric", "P@5")), imports=False)
    except ConfigError:
        return {name: value for name, value in settings.items() if name != "metric"}
    return settings


def _take(model: Recommender, stored: storage.Stored) -> None:
    """Check what `write` wrote and adopt it: nothing inconsistent reaches the code that computes with it."""
    tensors = stored.tensors
    users, items = (storage.unpack_vocabulary(what, tensors) for what in ("user", "item"))
    labels = storage.unpack_strings("item.labels", tensors) if "item.labels.ends" in tensors else None
    shape = (len(users), len(items))
    if labels is not None and len(labels) != shape[1]:
        raise StoreError(f"there are {len(labels):,} titles for {shape[1]:,} items")
    seen = _pairs("seen", tensors, shape)
    touched = _pairs("touched", tensors, shape) if "touched.indptr" in tensors else seen
    known = Known(users, items, labels, seen, touched)
    state = {n.removeprefix("model."): a for n, a in tensors.items() if n.startswith("model.")}
    settings = {name: value for name, value in model.config if type(value) is int}
    model._check_state(state, settings | {"users": shape[0], "items": shape[1]})
    learned = model._from_state(state, known)
    if isinstance(learned, Trained):
        learned = _with_history(learned, stored, shape)
    model._commit(learned, known, FittedOn.read(stored.manifest["fitted_on"]))
    model.item_table = storage.unpack_item_table(tensors, items)


def _with_history(learned: Trained, stored: storage.Stored, shape: tuple[int, int]) -> Trained:
    """With how the fit went, for when the model is saved again or evaluated."""
    curve, name = stored.manifest.get("history"), "stopped_by"
    if curve is not None:
        try:
            curve = _CURVE.validate_python(curve, strict=True)
        except ValidationError as error:
            raise StoreError(f"history: {first_problem(error)}") from None
    stopped_by = _pairs(name, stored.tensors, shape) if f"{name}.indptr" in stored.tensors else None
    return replace(learned, stored_curve=curve, stopped_by=stopped_by)


def _packed(name: str, pairs: Csr) -> dict[str, Array]:
    return {f"{name}.indptr": pairs.indptr, f"{name}.indices": pairs.indices}


def _pairs(name: str, tensors: Mapping[str, Array], shape: tuple[int, int]) -> Csr:
    begins, items = tensors[f"{name}.indptr"], tensors[f"{name}.indices"]
    storage.check_csr(name, begins, items, shape)
    return Csr(begins, items, shape)
