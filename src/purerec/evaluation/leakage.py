"""Checks that a model may be evaluated on a part of a split: same users and items, and not fitted on that part."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.splits import Split
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError


@runtime_checkable
class Fitted(Protocol):
    """A model that knows what it was fitted on, as every model of this package does."""

    @property
    def users(self) -> Vocabulary: ...

    @property
    def items(self) -> Vocabulary: ...

    @property
    def seen(self) -> Csr:
        """The positives that it was fitted on."""
        ...


def check_unseen(model: object, split: Split, part: Interactions, what: str) -> None:
    """Raise an error if a model was fitted on other ids or on positives of the part to evaluate on, or if test
    positives decided when to stop the fit.

    A scorer that does not know what it was fitted on is accepted as is.
    """
    if not isinstance(model, Fitted):
        return
    for mine, theirs in ((model.users, part.users), (model.items, part.items)):
        if mine != theirs:
            raise DataError(
                f"the model was fitted on other {mine.what}s ({_some(mine)}) than this data has ({_some(theirs)}); "
                "evaluate it on a split of the data it was fitted on"
            )
    stopped_by: Csr | None = getattr(model, "stopped_by", None)
    if what == "test" and stopped_by is not None and (seen := stopped_by.overlap(part.positives)):
        raise DataError(
            f"{seen:,} of the {part.n_positives:,} test positives decided when to stop the fit, so its score would "
            "be inflated; fit it with valid=split.valid"
        )
    if model.seen is split.train.positives:  # the parts of a split share no pair
        return
    seen = model.seen.overlap(part.positives)
    if seen:
        parts_are_files = split.made.method in (None, "given") and split.made.seed is None
        raise DataError(
            f"the model was fitted on {seen:,} of the {part.n_positives:,} {what} positives, so its score would be "
            "inflated",
            "fit it on the train part",
            command="fit it on the file of --train alone"
            if parts_are_files
            else f"fit it with {' '.join(split.made.as_options())}",
        )


def _some(ids: Vocabulary) -> str:
    shown = ", ".join(repr(i) for i in ids.ids.head(2).to_list())
    return f"{len(ids):,}: {shown}{', ...' if len(ids) > 2 else ''}"
