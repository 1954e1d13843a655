"""What models ask of the data they are fitted on."""

from __future__ import annotations

from purerec.data.interactions import Csr, Interactions
from purerec.errors import DataError


def need_positives(train: Interactions) -> Csr:
    """The positives, of which there must be one."""
    if not train.n_positives:
        raise DataError(f"'{train.name}' has no positives to learn from; lower the rating that counts as positive")
    return train.positives


def check_data(train: Interactions, valid: Interactions | None) -> None:
    """Whether a model can be fitted on these."""
    if not len(train):
        raise DataError("there is nothing to fit on: the train part has no interactions")
    if valid is not None and (valid.users != train.users or valid.items != train.items):
        raise DataError("train and valid must share their vocabularies; make them with split()")
