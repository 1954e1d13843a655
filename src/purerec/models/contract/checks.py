"""What models ask of the data they are fitted on."""

from __future__ import annotations

from purerec.data.interactions import Csr, Interactions
from purerec.errors import DataError


def need_positives(train: Interactions) -> Csr:
    """The positives, of which there must be one."""
    if not train.n_positives:
        raise DataError(f"'{train.name}' has no positives to learn from; lower the rating that counts as positive")
    return train.positives
