"""Models that know too much, or something else, are refused."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import purerec as pr
from evaluation.splits import random_split
from purerec.data.given import given_split
from purerec.data.sharing import join, with_shared_vocabularies
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError, NotFittedError
from purerec.evaluation.protocols import evaluate


@pytest.mark.parametrize("protocol", ["exact", "sampled", "as_published"])
def test_a_model_that_has_seen_the_answers_is_refused(protocol: Any) -> None:
    split = random_split()
    assert split.valid is not None
    whole = split.full_train
    everything = pr.make_model("ease").fit(split.test)
    with pytest.raises(DataError, match=r"fitted on [\d,]+ of the [\d,]+ test positives, .* would be inflated; fit"):
        evaluate(everything, split, protocol=protocol)
    fitted = pr.make_model("ease").fit(whole)
    assert evaluate(fitted, split, protocol=protocol).metrics["P@5"] > 0
    with pytest.raises(DataError, match=r"of the [\d,]+ valid positives, so its score would be inflated"):
        evaluate(fitted, split, protocol=protocol, on="valid")
    train_only = pr.make_model("ease").fit(split.train)
    assert evaluate(train_only, split, protocol=protocol, on="valid").metrics["P@5"] > 0


def test_a_fit_that_the_test_part_stopped_is_refused() -> None:
    split = random_split()
    model = pr.make_model("bpr", epochs=2, patience=1, validate_every=1)
    model.fit(split.train, valid=split.test)
    with pytest.raises(DataError, match=r"of the [\d,]+ test positives decided when to stop.*valid=split.valid"):
        evaluate(model, split)
    assert split.valid is not None
    model.fit(split.train, valid=split.valid)  # forgets the last one
    assert evaluate(model, split).metrics["P@5"] >= 0
    assert evaluate(model, split, on="valid").metrics["P@5"] >= 0
    unstopped = pr.make_model("bpr", epochs=2, patience=None).fit(split.train, valid=split.test)
    assert evaluate(unstopped, split).metrics["P@5"] >= 0


def test_what_stopped_a_fit_is_not_forgotten(tmp_path: Path) -> None:
    """Neither by a folder, nor by an update, nor with users and items that are new to the model."""
    split = pr.split(pr.make_world(users=60, items=30, interactions=500, prior=0.3).observed, "ratio", valid=0.1)
    model = pr.make_model("bpr", epochs=2, patience=1, validate_every=1).fit(split.train, valid=split.test)
    loaded = pr.load_model(model.save(tmp_path / "m"))
    later = pr.Interactions.from_columns([10_000], [10_000])
    updated = pr.load_model(deepcopy(loaded).update(later, epochs=1).save(tmp_path / "n"))
    wider = given_split(split.train, join(*with_shared_vocabularies([split.test, later])))
    for found, parts in ((loaded, split), (model, wider), (loaded, wider), (updated, wider)):
        with pytest.raises(DataError, match=f"^{split.test.n_positives:,} of the .* test positives decided when to"):
            evaluate(found, parts)
    honest = pr.make_model("bpr", epochs=2, patience=1, validate_every=1).fit(split.train, valid=split.valid)
    assert evaluate(pr.load_model(honest.save(tmp_path / "h")), split).metrics["P@5"] >= 0


def test_one_pair_seen_is_enough() -> None:
    split = random_split()
    row = int(np.flatnonzero(split.test.is_positive)[0])
    train = split.train
    leaked = replace(
        train,
        user_idx=np.append(train.user_idx, split.test.user_idx[row]),
        item_idx=np.append(train.item_idx, split.test.item_idx[row]),
        rating=np.append(train.rating, np.float32(5)),  # type: ignore[arg-type]
    )
    with pytest.raises(DataError, match="fitted on 1 of the"):
        evaluate(pr.make_model("itempop").fit(leaked), split)


@pytest.mark.parametrize("moved", ["users", "items"])
def test_a_model_of_other_ids_is_refused_though_its_shape_fits(moved: str) -> None:
    split = random_split()
    ids = getattr(split.train, moved)
    other = replace(split.train, **{moved: Vocabulary(ids.ids + 1, ids.what)})
    model = pr.make_model("itempop").fit(other)
    assert (len(model.users), len(model.items)) == split.train.shape
    with pytest.raises(DataError, match=f"fitted on other {moved} .*evaluate it on a split of the data"):
        evaluate(model, split)


def test_a_model_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(NotFittedError):
        evaluate(pr.make_model("itempop"), random_split())
