"""The answers of the service: from external ids to plain values for JSON. Runs in the model's threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from purerec import __version__
from purerec.errors import ConfigError
from purerec.models.contract.rules import ListRules, table_of
from purerec.serving.http.problems import Problem
from purerec.types import I32

if TYPE_CHECKING:
    from purerec.data.vocabulary import Id
    from purerec.models.contract.answering import TopOptions
    from purerec.models.contract.explaining import Explanation
    from purerec.ranking.ranks import TopK
    from purerec.serving.http.requests import RecommendRequest
    from purerec.serving.model.loaded_model import Loaded
    from purerec.serving.process.settings import Limits

Json = dict[str, Any]

_HISTORY_SHOWN = 200
_SHOWN_OF_ID = 64


def recommend_users(
    loaded: Loaded,
    users: Sequence[Id],
    k: int,
    *,
    exclude_seen: bool = True,
    items: Sequence[Id] | None = None,
    exclude: Sequence[Id] | None = None,
    explain: int = 0,
    rules: ListRules | None = None,
    attributes: Sequence[str] = (),
) -> list[Json]:
    """A list for each of these people of the training data."""
    user_idx = np.array([_user(loaded, user) for user in users], dtype=np.int64)
    try:
        options = _options(loaded, exclude_seen, items, exclude, rules)
        top = loaded.model.top_for_users(user_idx, k, **options)
    except ConfigError as error:
        raise _cannot(error) from None
    results = []
    for row, idx in enumerate(user_idx.tolist()):
        listed = _list(loaded, top, row)
        if explain:
            _give_reasons(loaded, listed, loaded.model.reasons_for_user(idx, _warm(loaded, top, row), explain))
        if attributes:
            _describe(loaded, listed, _there(top, row), attributes)
        results.append({"user": str(users[row]), "items": listed, "unknown_items": []})
    return results


def recommend_history(
    loaded: Loaded,
    history: Sequence[Id],
    k: int,
    *,
    exclude_seen: bool = True,
    items: Sequence[Id] | None = None,
    exclude: Sequence[Id] | None = None,
    explain: int = 0,
    rules: ListRules | None = None,
    attributes: Sequence[str] = (),
) -> Json:
    """A list for a person of whom only a history is known."""
    known, unknown = known_items(loaded, history)
    try:
        options = _options(loaded, exclude_seen, items, exclude, rules, unknown)
        top = loaded.model.top_for_history(known, k, **options)
    except ConfigError as error:
        raise _cannot(error) from None
    listed = _list(loaded, top, 0)
    if explain:
        _give_reasons(loaded, listed, loaded.model.reasons_for_history(known, _warm(loaded, top, 0), explain))
    if attributes:
        _describe(loaded, listed, _there(top, 0), attributes)
    return {"user": None, "items": listed, "unknown_items": unknown}


def _options(
    loaded: Loaded,
    exclude_seen: bool,
    items: Sequence[Id] | None,
    exclude: Sequence[Id] | None,
    rules: ListRules | None,
    own_unknown: Sequence[Id] = (),
) -> TopOptions:
    if rules is not None:  # what the model does not know of a history may be among the cold items
        own_cold = own_unknown if exclude_seen else ()
        rules, items = rules.among(loaded.model, items, [*(exclude or ()), *own_cold])
    return {
        "exclude_seen": exclude_seen,
        "items": None if items is None else _candidates(loaded, items),
        "exclude": None if exclude is None else known_items(loaded, exclude)[0],
        "rules": rules,
    }


def rules_of(asked: RecommendRequest) -> ListRules | None:
    """The rules of a request; invalid ones are the client's error."""
    try:
        return ListRules.of(
            {
                "where": asked.where,
                "at_most": asked.at_most,
                "diversity": asked.diversity,
                "popularity_discount": asked.popularity_discount,
                "cold_items": asked.cold_items,
            }
        )
    except ConfigError as error:
        raise _cannot(error) from None


def one_user(loaded: Loaded, asked: RecommendRequest) -> Json:
    """A known person's list, with the items it is based on."""
    assert asked.users is not None
    (user,) = asked.users
    (result,) = recommend_users(
        loaded, [user], asked.k, exclude_seen=asked.exclude_seen, explain=asked.explain, rules=rules_of(asked)
    )
    own = loaded.model.seen.row(_user(loaded, user))
    return {**result, "history": named(loaded, own[:_HISTORY_SHOWN].tolist())}


def similar(loaded: Loaded, item: str, k: int) -> Json:
    idx = _item(loaded, item)
    return {"item": named(loaded, [idx])[0], "items": _list(loaded, loaded.model.top_similar(idx, k), 0)}


def find_items(loaded: Loaded, query: str, limit: int) -> Json:
    found = loaded.item_search.find(query, limit)
    items = named(loaded, found.idx.tolist())
    for entry, count in zip(items, loaded.model.popularity()[found.idx].tolist(), strict=True):
        entry["popularity"] = int(count)
    return {"items": items, "total": found.total}


def find_users(loaded: Loaded, query: str, limit: int) -> Json:
    return {"users": loaded.user_search.find(query, limit)}


def explain_user(loaded: Loaded, user: Id, item: Id, k: int) -> Json:
    user_idx, item_idx = _user(loaded, user), _item(loaded, item)
    return _explained(loaded, item_idx, loaded.model.reasons_for_user(user_idx, item_idx, k)[0], [])


def explain_history(loaded: Loaded, history: Sequence[Id], item: Id, k: int) -> Json:
    item_idx = _item(loaded, item)
    known, unknown = known_items(loaded, history)
    try:
        return _explained(loaded, item_idx, loaded.model.reasons_for_history(known, item_idx, k)[0], unknown)
    except ConfigError as error:
        raise _cannot(error) from None


def about(loaded: Loaded, limits: Limits) -> Json:
    """What the model is, and what it was fitted on."""
    manifest = loaded.manifest
    return {
        "name": loaded.model.name,
        "version": loaded.version,
        "fitted_on": manifest.get("fitted_on", {}),
        "config": manifest.get("config", {}),
        "metrics": manifest.get("metrics"),
        "history": manifest.get("history"),
        "personalised": loaded.model.personalised,
        "purerec": __version__,
        "has_titles": loaded.model.labels is not None,
        "columns": loaded.columns,
        "cold_items": 0 if loaded.model.item_table is None else loaded.model.item_table.n_cold,
        "limits": {
            "k": limits.k,
            "batch": limits.batch,
            "history": limits.history,
            "body_bytes": limits.body_bytes,
        },
    }


# ---------------------------------------------------------------------- ids


def known_items(loaded: Loaded, asked: Sequence[Id]) -> tuple[I32, list[str]]:
    """Indices of the items that the model knows, each once, and the ids of the others."""
    find = loaded.model.items.find
    found = [(item, find(item)) for item in asked]
    known = sorted({idx for _, idx in found if idx is not None})
    return np.array(known, dtype=np.int32), list(dict.fromkeys(str(item) for item, idx in found if idx is None))


def _candidates(loaded: Loaded, asked: Sequence[Id]) -> I32:
    known, unknown = known_items(loaded, asked)
    if unknown:
        raise _unknown("item", unknown[0], "leave it out of `items`")
    return known


def _user(loaded: Loaded, user: Id) -> int:
    found = loaded.model.users.find(user)
    if found is None:
        raise _unknown("user", user, "post a `history` to /v1/recommend for people who were not in training")
    return found


def _item(loaded: Loaded, item: Id) -> int:
    found = loaded.model.items.find(item)
    if found is None:
        raise _unknown("item", item, "search for items with /v1/items?query=")
    return found


def _unknown(what: str, external: Id, remedy: str) -> Problem:
    text = str(external)
    shown = text if len(text) <= _SHOWN_OF_ID else text[:_SHOWN_OF_ID] + "..."
    return Problem(404, f"unknown-{what}", f"{what} {shown!r} was not in training; {remedy}")


def _cannot(error: ConfigError) -> Problem:
    return Problem(422, "not-for-this-model", str(error))


# ---------------------------------------------------------------------- values


def named(loaded: Loaded, item_idx: Iterable[int]) -> list[Json]:
    """Ids and titles of some items."""
    ids, labels, n = loaded.item_ids, loaded.labels, len(loaded.model.items)
    return [{"item": ids[i], "label": labels[i]} if i < n else _cold(loaded, i) for i in item_idx]


def _cold(loaded: Loaded, row: int) -> Json:
    table = loaded.model.item_table
    assert table is not None, "only a table has such items"
    return {"item": str(table.ids[row]), "label": None if table.titles is None else table.titles[row]}


def _warm(loaded: Loaded, top: TopK, row: int) -> list[int]:
    return [item for item in _there(top, row) if item < len(loaded.model.items)]


def _describe(loaded: Loaded, listed: list[Json], rows: Sequence[int], names: Sequence[str]) -> None:
    try:
        table = table_of(loaded.model)
        for entry, row in zip(listed, rows, strict=True):
            entry["attributes"] = table.row(row, names)
    except ConfigError as error:
        raise _cannot(error) from None


def _there(top: TopK, row: int) -> list[int]:
    return [item for item in top.items[row].tolist() if item >= 0]


def _list(loaded: Loaded, top: TopK, row: int) -> list[Json]:
    entries = named(loaded, _there(top, row))
    for rank, (entry, score) in enumerate(zip(entries, top.scores[row].tolist(), strict=False), start=1):
        entry["score"] = short(score)
        entry["rank"] = rank
    return entries


def _give_reasons(loaded: Loaded, listed: list[Json], found: Sequence[Explanation]) -> None:
    for entry, why in zip(listed, found, strict=False):
        entry |= {"kind": why.kind, "because": _because(loaded, why)}
    for entry in listed[len(found) :]:  # cold items, which are at the end
        entry |= {"kind": "new", "because": []}


def _because(loaded: Loaded, found: Explanation) -> list[Json]:
    entries = named(loaded, found.item_idx.tolist())
    parts = found.because.select("share", "lift").rows()
    return [
        {**entry, "share": short(share), "lift": short(lift)}
        for entry, (share, lift) in zip(entries, parts, strict=True)
    ]


def _explained(loaded: Loaded, item_idx: int, found: Explanation, unknown: list[str]) -> Json:
    return {
        **named(loaded, [item_idx])[0],
        "score": short(found.score),
        "kind": found.kind,
        "lift": short(found.lift),
        "text": found.text,
        "because": _because(loaded, found),
        "unknown_items": unknown,
    }


def short(value: float) -> float:
    """Round to the precision of a 32-bit float."""
    return float(f"{value:.7g}")
